// Free extents, kept in address order and coalesced. Taking is address-ordered first fit: low
// addresses fill up and high ones drain, which wastes least at the peak (bench/README.md,
// "Footprint").
//
// It holds only addresses; the pages behind them stay as they are, pinned or not. Extents of two
// regions never join, because regions never touch: the window leaves a gap between them.
//
// Runs inside malloc. Not thread-safe: the heap's pool lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/node_store.h"
#include "allocator/status.h"

namespace rdmalloc {

class ExtentPool {
 public:
  constexpr ExtentPool() = default;
  ExtentPool(const ExtentPool&) = delete;
  ExtentPool& operator=(const ExtentPool&) = delete;

  // The lowest free range of `size` bytes with that alignment, or null. Both are page multiples;
  // alignment is a power of two. May also be null when a split needs a record and there is no
  // memory for it.
  void* take(size_t size, size_t alignment);

  // True when take() would find a range.
  bool has(size_t size, size_t alignment) const {
    return first_fit(root_, size, alignment) != nullptr;
  }

  // Exactly [address, address + size), when all of it is free.
  bool take_at(void* address, size_t size);

  // Makes a range free. It must not overlap what is free. kNoMemory: nothing changed.
  Status give(void* address, size_t size);

  // Sets a record aside, so that the next add() cannot fail. False: no memory for it.
  bool prepare();

  // give() for the whole of a new region, which touches nothing that is free; after prepare().
  void add(void* address, size_t size);

  // Forgets every free range.
  void clear();

  size_t free_bytes() const { return free_bytes_; }
  size_t extents() const { return extents_; }
  size_t largest() const { return root_ == nullptr ? 0 : root_->largest; }
  size_t metadata_bytes() const { return nodes_.mapped_bytes(); }

  // Calls visit(address, size) in address order. Under the pool's lock.
  template <typename Visit>
  void for_each(Visit visit) const {
    walk(root_, visit);
  }

  // Checks order, coalescing, heap order and sums: linear, for tests and debug builds.
  bool validate() const;

 private:
  // A treap: ordered by address, heap-ordered by priority, so balanced whatever the order of calls.
  // `largest` is the largest size in the subtree; first fit descends by it.
  struct Node {
    uintptr_t address = 0;
    size_t size = 0;
    size_t largest = 0;
    uint32_t priority = 0;
    Node* left = nullptr;
    Node* right = nullptr;
    uintptr_t end() const { return address + size; }
  };

  struct Range {
    uintptr_t address;
    size_t size;
  };

  template <typename Visit>
  static void walk(const Node* node, Visit& visit) {
    if (node == nullptr) return;
    walk(node->left, visit);
    visit(reinterpret_cast<void*>(node->address), node->size);
    walk(node->right, visit);
  }

  static void refresh(Node* node);
  static Node* merge(Node* left, Node* right);
  static void split(Node* node, uintptr_t address, Node** below, Node** above);
  static Node* first_fit(Node* node, size_t size, size_t alignment);
  static bool check(const Node* node, const Node** previous, Range* sum);

  uint32_t next_priority();
  void insert(Node* node);
  Node* remove(uintptr_t address);
  void resize(uintptr_t address, Range now);
  bool carve(Range from, Range wanted);

  Node* root_ = nullptr;
  Node* spare_ = nullptr;
  size_t free_bytes_ = 0;
  size_t extents_ = 0;
  uint32_t random_ = 0x9e3779b9;
  NodeStore<Node> nodes_;
};

}  // namespace rdmalloc
