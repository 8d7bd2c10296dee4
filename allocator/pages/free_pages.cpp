#include "allocator/pages/free_pages.h"

#include <initializer_list>

#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

// How many long-enough runs to try that may happen to be aligned, before searching only for runs so
// long that an aligned part always fits.
constexpr int kTries = 8;

}  // namespace

const FreePages::Node* FreePages::edge(const Node* node, Child side) {
  while (node != nullptr && node->*side != nullptr) node = node->*side;
  return node;
}

const FreePages::Node* FreePages::next(const Node* node) {
  if (node->right != nullptr) return edge(node->right, &Node::left);
  while (node->parent != nullptr && node->parent->right == node) node = node->parent;
  return node->parent;
}

size_t FreePages::largest_below(const Node* node) {
  size_t largest = node->size;
  if (node->left != nullptr && node->left->largest > largest) largest = node->left->largest;
  if (node->right != nullptr && node->right->largest > largest) largest = node->right->largest;
  return largest;
}

// Stops at the first node whose `largest` does not change: nothing above it changes either.
void FreePages::refresh_up(Node* node) {
  for (; node != nullptr; node = node->parent) {
    const size_t largest = largest_below(node);
    if (largest == node->largest) return;
    node->largest = largest;
  }
}

// Puts another node (or none) in a node's place under its parent.
void FreePages::replace(Node* node, Node* by) {
  Node* const parent = node->parent;
  if (parent == nullptr) {
    root_ = by;
  } else if (parent->left == node) {
    parent->left = by;
  } else {
    parent->right = by;
  }
  if (by != nullptr) by->parent = parent;
}

// Rotates a node above its parent; both end up with the right `largest`.
void FreePages::rotate_up(Node* node) {
  Node* const parent = node->parent;
  replace(parent, node);
  const bool was_left = parent->left == node;
  const Child inner = was_left ? &Node::right : &Node::left;
  const Child outer = was_left ? &Node::left : &Node::right;
  Node* const moved = node->*inner;
  parent->*outer = moved;
  if (moved != nullptr) moved->parent = parent;
  node->*inner = parent;
  parent->parent = node;
  node->largest = parent->largest;
  parent->largest = largest_below(parent);
}

// The first run of the subtree, in our order, of at least `size` bytes.
const FreePages::Node* FreePages::first_of(const Node* node, size_t size) const {
  if (node == nullptr || node->largest < size) return nullptr;
  const bool lowest = order_ == Order::kLowestFirst;
  for (;;) {
    const Node* const before = lowest ? node->left : node->right;
    if (before != nullptr && before->largest >= size) {
      node = before;
    } else if (node->size >= size) {
      return node;
    } else {
      node = lowest ? node->right : node->left;
    }
  }
}

// The next such run after `node`.
const FreePages::Node* FreePages::next_of(const Node* node, size_t size) const {
  const Child after = order_ == Order::kLowestFirst ? &Node::right : &Node::left;
  if (const Node* found = first_of(node->*after, size)) return found;
  for (const Node* parent = node->parent; parent != nullptr; parent = node->parent) {
    const bool came_from_after = parent->*after == node;
    node = parent;
    if (came_from_after) continue;
    if (node->size >= size) return node;
    if (const Node* found = first_of(node->*after, size)) return found;
  }
  return nullptr;
}

const FreePages::Node* FreePages::find(size_t size, size_t alignment) const {
  const Node* node = first_of(root_, size);
  if (alignment <= os::page_size()) return node;
  for (int i = 0; node != nullptr && i < kTries; ++i, node = next_of(node, size)) {
    const uintptr_t start = os::align_up(node->address, alignment);
    if (start >= node->address && start <= node->end() && node->end() - start >= size) return node;
  }
  const size_t enough = size + alignment - os::page_size();
  return node == nullptr || enough < size ? nullptr : first_of(root_, enough);
}

uint32_t FreePages::next_priority() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_;
}

void FreePages::insert(Node* node) {
  node->left = node->right = node->parent = nullptr;
  node->priority = next_priority();
  node->largest = node->size;
  Node** place = &root_;
  while (*place != nullptr) {
    node->parent = *place;
    place = node->address < node->parent->address ? &node->parent->left : &node->parent->right;
  }
  *place = node;
  refresh_up(node->parent);
  while (node->parent != nullptr && node->parent->priority < node->priority) rotate_up(node);
  free_bytes_ += node->size;
  ++runs_;
}

void FreePages::remove(Node* node) {
  while (node->left != nullptr && node->right != nullptr) {
    rotate_up(node->left->priority > node->right->priority ? node->left : node->right);
  }
  replace(node, node->left != nullptr ? node->left : node->right);
  refresh_up(node->parent);
  free_bytes_ -= node->size;
  --runs_;
}

// The node must keep its place in the order.
void FreePages::resize(Node* node, Range now) {
  free_bytes_ += now.size - node->size;
  node->address = now.address;
  node->size = now.size;
  refresh_up(node);
}

bool FreePages::carve(Node* from, Range wanted) {
  const Range before{from->address, wanted.address - from->address};
  const uintptr_t end = wanted.address + wanted.size;
  const Range after{end, from->end() - end};
  if (before.size > 0 && after.size > 0) {
    Node* tail = nodes_.get();  // the step that can fail comes first
    if (tail == nullptr) return false;
    tail->address = after.address;
    tail->size = after.size;
    resize(from, before);
    insert(tail);
  } else if (before.size > 0) {
    resize(from, before);
  } else if (after.size > 0) {
    resize(from, after);
  } else {
    remove(from);
    nodes_.put(from);
  }
  return true;
}

void* FreePages::take(size_t size, size_t alignment) {
  Node* const found = const_cast<Node*>(find(size, alignment));
  if (found == nullptr) return nullptr;
  const uintptr_t start = os::align_up(found->address, alignment);
  return carve(found, {start, size}) ? reinterpret_cast<void*>(start) : nullptr;
}

void* FreePages::take_largest(size_t least, size_t most, size_t* size) {
  if (largest() < least || root_ == nullptr) return nullptr;
  Node* const found = const_cast<Node*>(first_of(root_, root_->largest));
  const uintptr_t start = found->address;
  *size = found->size < most ? found->size : most;
  return carve(found, {start, *size}) ? reinterpret_cast<void*>(start) : nullptr;
}

void FreePages::neighbours(uintptr_t address, Node** lower, Node** upper) const {
  *lower = nullptr;
  *upper = nullptr;
  for (Node* node = root_; node != nullptr;) {
    const bool is_lower = node->address <= address;
    *(is_lower ? lower : upper) = node;
    node = is_lower ? node->right : node->left;
  }
}

bool FreePages::take_at(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  Node* holder = nullptr;
  Node* ignored = nullptr;
  neighbours(start, &holder, &ignored);
  if (holder == nullptr || holder->end() < start || holder->end() - start < size) return false;
  return carve(holder, {start, size});
}

Status FreePages::give(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  Node* lower = nullptr;
  Node* upper = nullptr;
  neighbours(start, &lower, &upper);
  const bool joins_lower = lower != nullptr && lower->end() == start;
  const bool joins_upper = upper != nullptr && start + size == upper->address;
  if (joins_lower && joins_upper) {
    const size_t joined = lower->size + size + upper->size;
    remove(upper);
    nodes_.put(upper);
    resize(lower, {lower->address, joined});
  } else if (joins_lower) {
    resize(lower, {lower->address, lower->size + size});
  } else if (joins_upper) {
    resize(upper, {start, upper->size + size});
  } else {
    Node* node = nodes_.get();
    if (node == nullptr) return Status::kNoMemory;
    node->address = start;
    node->size = size;
    insert(node);
  }
  return Status::kOk;
}

bool FreePages::prepare() {
  if (spare_ == nullptr) spare_ = nodes_.get();
  return spare_ != nullptr;
}

void FreePages::add(void* address, size_t size) {
  spare_->address = reinterpret_cast<uintptr_t>(address);
  spare_->size = size;
  insert(spare_);
  spare_ = nullptr;
}

void FreePages::clear() {
  while (root_ != nullptr) {
    Node* const node = root_;
    remove(node);
    nodes_.put(node);
  }
}

bool FreePages::validate() const {
  Range sum{0, 0};
  const Node* previous = nullptr;
  for (const Node* node = edge(root_, &Node::left); node != nullptr; node = next(node)) {
    for (const Node* child : {node->left, node->right}) {
      if (child == nullptr) continue;
      if (child->parent != node || child->priority > node->priority) return false;
    }
    if (node->largest != largest_below(node) || node->size == 0) return false;
    // Strictly above: adjacent runs would have been coalesced.
    if (previous != nullptr && previous->end() >= node->address) return false;
    previous = node;
    sum.size += node->size;
    sum.address += 1;
  }
  return sum.size == free_bytes_ && sum.address == runs_;
}

}  // namespace rdmalloc
