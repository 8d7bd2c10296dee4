#include "allocator/extent_pool.h"

namespace rdmalloc {
namespace {

constexpr uintptr_t align_up(uintptr_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

void ExtentPool::refresh(Node* node) {
  size_t largest = node->size;
  if (node->left != nullptr && node->left->largest > largest) largest = node->left->largest;
  if (node->right != nullptr && node->right->largest > largest) largest = node->right->largest;
  node->largest = largest;
}

ExtentPool::Node* ExtentPool::merge(Node* left, Node* right) {
  if (left == nullptr) return right;
  if (right == nullptr) return left;
  Node* top = left;
  if (left->priority >= right->priority) {
    left->right = merge(left->right, right);
  } else {
    right->left = merge(left, right->left);
    top = right;
  }
  refresh(top);
  return top;
}

// Everything that starts before `address` goes below, the rest above.
void ExtentPool::split(Node* node, uintptr_t address, Node** below, Node** above) {
  if (node == nullptr) {
    *below = nullptr;
    *above = nullptr;
    return;
  }
  if (node->address < address) {
    split(node->right, address, &node->right, above);
    *below = node;
  } else {
    split(node->left, address, below, &node->left);
    *above = node;
  }
  refresh(node);
}

ExtentPool::Node* ExtentPool::first_fit(Node* node, size_t size, size_t alignment) {
  if (node == nullptr || node->largest < size) return nullptr;
  if (Node* lower = first_fit(node->left, size, alignment)) return lower;
  const uintptr_t start = align_up(node->address, alignment);
  if (start <= node->end() && node->end() - start >= size) return node;
  return first_fit(node->right, size, alignment);
}

uint32_t ExtentPool::next_priority() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_;
}

void ExtentPool::insert(Node* node) {
  node->left = nullptr;
  node->right = nullptr;
  node->priority = next_priority();
  refresh(node);
  Node* below = nullptr;
  Node* above = nullptr;
  split(root_, node->address, &below, &above);
  root_ = merge(merge(below, node), above);
  free_bytes_ += node->size;
  ++extents_;
}

// Detaches the extent that starts at `address`, which must exist.
ExtentPool::Node* ExtentPool::remove(uintptr_t address) {
  Node* below = nullptr;
  Node* rest = nullptr;
  Node* node = nullptr;
  Node* above = nullptr;
  split(root_, address, &below, &rest);
  split(rest, address + 1, &node, &above);
  root_ = merge(below, above);
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it exists
  free_bytes_ -= node->size;
  --extents_;
  return node;
}

// Changes the extent that starts at `address`; its place in the order must not change.
void ExtentPool::resize(uintptr_t address, Range now) {
  Node* path[128];
  size_t depth = 0;
  Node* node = root_;
  while (node->address != address) {
    if (depth < 128) path[depth++] = node;
    node = address < node->address ? node->left : node->right;
  }
  free_bytes_ += now.size - node->size;
  node->address = now.address;
  node->size = now.size;
  refresh(node);
  while (depth > 0) refresh(path[--depth]);
}

bool ExtentPool::carve(Range from, Range wanted) {
  const Range before{from.address, wanted.address - from.address};
  const uintptr_t end = wanted.address + wanted.size;
  const Range after{end, from.address + from.size - end};
  if (before.size > 0 && after.size > 0) {
    Node* tail = nodes_.get();  // the step that can fail comes first
    if (tail == nullptr) return false;
    tail->address = after.address;
    tail->size = after.size;
    resize(from.address, before);
    insert(tail);
  } else if (before.size > 0) {
    resize(from.address, before);
  } else if (after.size > 0) {
    resize(from.address, after);
  } else {
    nodes_.put(remove(from.address));
  }
  return true;
}

void* ExtentPool::take(size_t size, size_t alignment) {
  const Node* found = first_fit(root_, size, alignment);
  if (found == nullptr) return nullptr;
  const uintptr_t start = align_up(found->address, alignment);
  if (!carve({found->address, found->size}, {start, size})) return nullptr;
  return reinterpret_cast<void*>(start);
}

bool ExtentPool::take_at(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const Node* holder = nullptr;
  for (const Node* node = root_; node != nullptr;) {
    if (node->address <= start) {
      holder = node;
      node = node->right;
    } else {
      node = node->left;
    }
  }
  if (holder == nullptr || holder->end() < start || holder->end() - start < size) return false;
  return carve({holder->address, holder->size}, {start, size});
}

Status ExtentPool::give(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const Node* lower = nullptr;
  const Node* upper = nullptr;
  for (const Node* node = root_; node != nullptr;) {
    if (node->address < start) {
      lower = node;
      node = node->right;
    } else {
      upper = node;
      node = node->left;
    }
  }
  const bool joins_lower = lower != nullptr && lower->end() == start;
  const bool joins_upper = upper != nullptr && start + size == upper->address;
  if (joins_lower && joins_upper) {
    Node* gone = remove(upper->address);
    resize(lower->address, {lower->address, lower->size + size + gone->size});
    nodes_.put(gone);
  } else if (joins_lower) {
    resize(lower->address, {lower->address, lower->size + size});
  } else if (joins_upper) {
    resize(upper->address, {start, upper->size + size});
  } else {
    Node* node = nodes_.get();
    if (node == nullptr) return Status::kNoMemory;
    node->address = start;
    node->size = size;
    insert(node);
  }
  return Status::kOk;
}

bool ExtentPool::prepare() {
  if (spare_ == nullptr) spare_ = nodes_.get();
  return spare_ != nullptr;
}

void ExtentPool::add(void* address, size_t size) {
  spare_->address = reinterpret_cast<uintptr_t>(address);
  spare_->size = size;
  insert(spare_);
  spare_ = nullptr;
}

void ExtentPool::clear() {
  while (root_ != nullptr) nodes_.put(remove(root_->address));
}

bool ExtentPool::check(const Node* node, const Node** previous, Range* sum) {
  if (node == nullptr) return true;
  if (node->left != nullptr && node->left->priority > node->priority) return false;
  if (node->right != nullptr && node->right->priority > node->priority) return false;
  Node copy = *node;
  refresh(&copy);
  if (copy.largest != node->largest || node->size == 0) return false;
  if (!check(node->left, previous, sum)) return false;
  // Strictly above, not touching: what touches would have been coalesced.
  if (*previous != nullptr && (*previous)->end() >= node->address) return false;
  *previous = node;
  sum->size += node->size;
  sum->address += 1;
  return check(node->right, previous, sum);
}

bool ExtentPool::validate() const {
  const Node* previous = nullptr;
  Range sum{0, 0};
  return check(root_, &previous, &sum) && sum.size == free_bytes_ && sum.address == extents_;
}

}  // namespace rdmalloc
