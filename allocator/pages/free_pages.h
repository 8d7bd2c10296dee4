// Runs of free pages, coalesced, in the order of their addresses. Taking is address-ordered first
// fit: one end fills up and the other drains, which wastes least at the peak (bench/README.md,
// "Footprint"). Which end is first is chosen once: where the window is carved.
//
// It holds only addresses; the pages behind them stay as they are. Runs of two regions never join,
// because regions never touch: the window leaves a gap between them.
//
// Runs inside malloc. Not thread-safe: a Depot's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/run_tree.h"
#include "allocator/record_store.h"
#include "allocator/status.h"

namespace rdmalloc {

class FreePages {
 public:
  constexpr FreePages() = default;
  FreePages(const FreePages&) = delete;
  FreePages& operator=(const FreePages&) = delete;

  // Before anything is free.
  void set_order(RunTree::Order order) { tree_.set_order(order); }

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

  // Takes the run that starts at the address, whole. Null: none does.
  void* take_run_at(uintptr_t address, size_t* size);

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
  size_t largest() const { return tree_.largest(); }
  size_t metadata_bytes() const { return records_.mapped_bytes(); }

  // Calls visit(address, size) in address order.
  template <typename Visit>
  void for_each(Visit visit) const {
    tree_.for_each([&](const Run& run) { visit(reinterpret_cast<void*>(run.address), run.size); });
  }

  // Checks order, coalescing, heap order and sums: linear, for tests and debug builds.
  bool validate() const;

 private:
  using Run = RunTree::Run;

  Run* find(size_t size, size_t alignment) const;
  void insert(Run* run);
  void remove(Run* run);
  void resize(Run* run, uintptr_t address, size_t size);
  bool carve(Run* from, uintptr_t address, size_t size);

  RunTree tree_;
  Run* spare_ = nullptr;
  size_t free_bytes_ = 0;
  size_t runs_ = 0;
  RecordStore<Run> records_;
};

}  // namespace rdmalloc
