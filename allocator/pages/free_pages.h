// Runs of free pages, coalesced, in the order of their addresses. Taking is address-ordered first
// fit: one end fills up and the other drains, which wastes least at the peak (bench/README.md,
// "Footprint"). Which end is first is chosen once: where the window is carved.
//
// It holds only addresses; the pages behind them stay as they are. Runs of two regions never join,
// because regions never touch: the window leaves a gap between them.
//
// Runs inside malloc, on little stack: nothing here recurses. Not thread-safe: a Depot's lock
// guards it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/record_store.h"
#include "allocator/status.h"

namespace rdmalloc {

class FreePages {
 public:
  enum class Order : uint8_t { kLowestFirst, kHighestFirst };

  constexpr FreePages() = default;
  FreePages(const FreePages&) = delete;
  FreePages& operator=(const FreePages&) = delete;

  // Before anything is free.
  void set_order(Order order) { order_ = order; }

  // Takes `size` bytes with that alignment from the start of the first run that has them. Both are
  // page multiples; alignment is a power of two. Logarithmic: for alignments above a page it tries
  // only a few runs that might do, then those that must. Null: none of the runs it tried has them,
  // or there is no memory for the record that a split needs.
  void* take(size_t size, size_t alignment);

  // True when take() would find a run.
  bool has(size_t size, size_t alignment) const { return find(size, alignment) != nullptr; }

  // Takes exactly [address, address + size), when all of it is free.
  bool take_at(void* address, size_t size);

  // Takes the start of the largest run; `size`: its length, `most` bytes at most. Null when no run
  // has `least`.
  void* take_largest(size_t least, size_t most, size_t* size);

  // Makes a range free. It must not overlap what is free. kNoMemory: nothing changed.
  Status give(void* address, size_t size);

  // Sets a record aside, so that the next add() cannot fail. False: no memory for it.
  bool prepare();

  // give() for the whole of a new region, which touches nothing that is free; after prepare().
  void add(void* address, size_t size);

  // Forgets every free run.
  void clear();

  size_t free_bytes() const { return free_bytes_; }
  size_t runs() const { return runs_; }
  size_t largest() const { return root_ == nullptr ? 0 : root_->largest; }
  size_t metadata_bytes() const { return nodes_.mapped_bytes(); }

  // Calls visit(address, size) in address order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Node* node = edge(root_, &Node::left); node != nullptr; node = next(node)) {
      visit(reinterpret_cast<void*>(node->address), node->size);
    }
  }

  // Checks order, coalescing, heap order and sums: linear, for tests and debug builds.
  bool validate() const;

 private:
  // A treap: ordered by address, heap-ordered by priority, so balanced whatever the order of calls.
  // `largest` is the largest size in the subtree; searches descend by it.
  struct Node {
    uintptr_t address = 0;
    size_t size = 0;
    size_t largest = 0;
    uint32_t priority = 0;
    Node* left = nullptr;
    Node* right = nullptr;
    Node* parent = nullptr;
    uintptr_t end() const { return address + size; }
  };
  using Child = Node* Node::*;

  struct Range {
    uintptr_t address;
    size_t size;
  };

  static const Node* edge(const Node* node, Child side);
  static const Node* next(const Node* node);
  static size_t largest_below(const Node* node);
  static void refresh_up(Node* node);
  void rotate_up(Node* node);
  void replace(Node* node, Node* by);

  const Node* first_of(const Node* node, size_t size) const;
  const Node* next_of(const Node* node, size_t size) const;
  const Node* find(size_t size, size_t alignment) const;
  // The runs that start at or below an address, and above it, nearest to it.
  void neighbours(uintptr_t address, Node** lower, Node** upper) const;

  uint32_t next_priority();
  void insert(Node* node);
  void remove(Node* node);
  void resize(Node* node, Range now);
  bool carve(Node* from, Range wanted);

  Order order_ = Order::kLowestFirst;
  Node* root_ = nullptr;
  Node* spare_ = nullptr;
  size_t free_bytes_ = 0;
  size_t runs_ = 0;
  uint32_t random_ = 0x9e3779b9;
  RecordStore<Node> nodes_;
};

}  // namespace rdmalloc
