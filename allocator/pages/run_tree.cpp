#include "allocator/pages/run_tree.h"

#include <initializer_list>

namespace rdmalloc {

const RunTree::Run* RunTree::lowest_below(const Run* run) {
  while (run != nullptr && run->left != nullptr) run = run->left;
  return run;
}

const RunTree::Run* RunTree::next_by_address(const Run* run) {
  if (run->right != nullptr) return lowest_below(run->right);
  while (run->parent != nullptr && run->parent->right == run) run = run->parent;
  return run->parent;
}

size_t RunTree::largest_below(const Run* run) {
  size_t largest = run->size;
  if (run->left != nullptr && run->left->largest > largest) largest = run->left->largest;
  if (run->right != nullptr && run->right->largest > largest) largest = run->right->largest;
  return largest;
}

// Stops at the first run whose `largest` does not change: nothing above it changes either.
void RunTree::refresh_up(Run* run) {
  for (; run != nullptr; run = run->parent) {
    const size_t largest = largest_below(run);
    if (largest == run->largest) return;
    run->largest = largest;
  }
}

// Puts another run (or none) in a run's place under its parent.
void RunTree::replace(Run* run, Run* by) {
  Run* const parent = run->parent;
  if (parent == nullptr) {
    root_ = by;
  } else if (parent->left == run) {
    parent->left = by;
  } else {
    parent->right = by;
  }
  if (by != nullptr) by->parent = parent;
}

// Rotates a run above its parent; both end up with the right `largest`.
void RunTree::rotate_up(Run* run) {
  Run* const parent = run->parent;
  replace(parent, run);
  const bool was_left = parent->left == run;
  const Child inner = was_left ? &Run::right : &Run::left;
  const Child outer = was_left ? &Run::left : &Run::right;
  Run* const moved = run->*inner;
  parent->*outer = moved;
  if (moved != nullptr) moved->parent = parent;
  run->*inner = parent;
  parent->parent = run;
  run->largest = parent->largest;
  parent->largest = largest_below(parent);
}

// The first run of the subtree, in our order, of at least `size` bytes.
RunTree::Run* RunTree::first_below(Run* run, size_t size) const {
  if (run == nullptr || run->largest < size) return nullptr;
  const bool lowest = order_ == Order::kLowestFirst;
  for (;;) {
    Run* const before = lowest ? run->left : run->right;
    if (before != nullptr && before->largest >= size) {
      run = before;
    } else if (run->size >= size) {
      return run;
    } else {
      run = lowest ? run->right : run->left;
    }
  }
}

RunTree::Run* RunTree::next(const Run* run, size_t size) const {
  const Child after = order_ == Order::kLowestFirst ? &Run::right : &Run::left;
  if (Run* found = first_below(run->*after, size)) return found;
  for (Run* parent = run->parent; parent != nullptr; parent = run->parent) {
    const bool came_from_after = parent->*after == run;
    run = parent;
    if (came_from_after) continue;
    if (parent->size >= size) return parent;
    if (Run* found = first_below(parent->*after, size)) return found;
  }
  return nullptr;
}

uint32_t RunTree::next_priority() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_;
}

void RunTree::insert(Run* run) {
  run->left = run->right = run->parent = nullptr;
  run->priority = next_priority();
  run->largest = run->size;
  Run** place = &root_;
  while (*place != nullptr) {
    run->parent = *place;
    place = run->address < run->parent->address ? &run->parent->left : &run->parent->right;
  }
  *place = run;
  refresh_up(run->parent);
  while (run->parent != nullptr && run->parent->priority < run->priority) rotate_up(run);
}

void RunTree::remove(Run* run) {
  while (run->left != nullptr && run->right != nullptr) {
    rotate_up(run->left->priority > run->right->priority ? run->left : run->right);
  }
  replace(run, run->left != nullptr ? run->left : run->right);
  refresh_up(run->parent);
}

bool RunTree::validate() const {
  const Run* previous = nullptr;
  for (const Run* run = lowest_below(root_); run != nullptr; run = next_by_address(run)) {
    for (const Run* child : {run->left, run->right}) {
      if (child == nullptr) continue;
      if (child->parent != run || child->priority > run->priority) return false;
    }
    if (run->largest != largest_below(run) || run->size == 0) return false;
    // Strictly above: adjacent runs would have been coalesced.
    if (previous != nullptr && previous->end() >= run->address) return false;
    previous = run;
  }
  return true;
}

}  // namespace rdmalloc
