// Runs of pages, in the order of their addresses: a treap, ordered by address and heap-ordered by
// priority, so balanced whatever the order of calls. Each run knows the largest size in its
// subtree, by which searches descend. Which end is first is chosen once.
//
// Used inside malloc, on little stack: nothing here recurses. The tree owns no memory: its user,
// FreePages, allocates the runs. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class RunTree {
 public:
  enum class Order : uint8_t { kLowestFirst, kHighestFirst };

  struct Run {
    uintptr_t address = 0;
    size_t size = 0;
    size_t largest = 0;
    uint32_t priority = 0;
    Run* left = nullptr;
    Run* right = nullptr;
    Run* parent = nullptr;
    uintptr_t end() const { return address + size; }
  };

  constexpr RunTree() = default;
  RunTree(const RunTree&) = delete;
  RunTree& operator=(const RunTree&) = delete;

  // While it is empty.
  void set_order(Order order) { order_ = order; }

  // The largest size of any run; 0: there is none.
  size_t largest() const { return root_ == nullptr ? 0 : root_->largest; }
  // Any run; null: there is none.
  Run* any() const { return root_; }

  // The first run, in our order, of at least `size` bytes, and the next such run after one. Null:
  // there is none.
  Run* first(size_t size) const { return first_below(root_, size); }
  Run* next(const Run* run, size_t size) const;
  // The runs that start at or below an address, and above it, nearest to it.
  void neighbours(uintptr_t address, Run** lower, Run** upper) const {
    *lower = nullptr;
    *upper = nullptr;
    for (Run* run = root_; run != nullptr;) {
      const bool is_lower = run->address <= address;
      *(is_lower ? lower : upper) = run;
      run = is_lower ? run->right : run->left;
    }
  }

  // The run must have its address and size, and overlap no other.
  void insert(Run* run);
  void remove(Run* run);
  // Gives a run another extent, with which it keeps its place in the order.
  void resize(Run* run, uintptr_t address, size_t size) {
    run->address = address;
    run->size = size;
    refresh_up(run);
  }

  // Calls visit(run) in address order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Run* run = lowest_below(root_); run != nullptr; run = next_by_address(run)) {
      visit(*run);
    }
  }

  // Checks order, coalescing, heap order and the largest sizes: linear, for tests and debug builds.
  bool validate() const;

 private:
  using Child = Run* Run::*;

  static const Run* lowest_below(const Run* run);
  static const Run* next_by_address(const Run* run);
  static size_t largest_below(const Run* run);
  static void refresh_up(Run* run);
  void rotate_up(Run* run);
  void replace(Run* run, Run* by);
  Run* first_below(Run* run, size_t size) const;
  uint32_t next_priority();

  Order order_ = Order::kLowestFirst;
  uint32_t random_ = 0x9e3779b9;
  Run* root_ = nullptr;
};

}  // namespace rdmalloc
