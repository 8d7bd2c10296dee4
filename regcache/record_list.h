// Records that callers know by address, such as pools: found without a lock by any thread, made
// when they are first needed, and never freed, so that a call that comes too late reads valid
// memory. Everything but find() and at() needs the owner's lock, or the only thread of a fork's
// child. Not inside malloc. Constant-initialised.
//
// A Record has is_in_use() and note_fork_child(), which any thread may read or, in a child, call.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

#include "allocator/os/memory.h"

namespace rdmalloc {

template <typename Record, size_t kCount>
class RecordList {
 public:
  static constexpr size_t kMost = kCount;

  constexpr RecordList() = default;
  RecordList(const RecordList&) = delete;
  RecordList& operator=(const RecordList&) = delete;

  // The number of a record that is not in use, or not made yet: in turn, so that few who hold the
  // address of a closed one meet its successor. kMost: all are in use.
  size_t find_free() {
    for (size_t i = 0; i < kMost; ++i) {
      const size_t number = (next_ + i) % kMost;
      const Record* const known = records_[number].load(std::memory_order_relaxed);
      if (known != nullptr && known->is_in_use()) continue;
      next_ = (number + 1) % kMost;
      return number;
    }
    return kMost;
  }

  // The record of that number, made with these arguments if there is none. Null: no memory.
  template <typename... Arguments>
  Record* make(size_t number, Arguments&&... arguments) {
    Record* known = records_[number].load(std::memory_order_relaxed);
    if (known != nullptr) return known;
    void* const memory = os::map_metadata(sizeof(Record));
    if (memory == nullptr) return nullptr;
    known = new (memory) Record(std::forward<Arguments>(arguments)...);
    records_[number].store(known, std::memory_order_release);
    return known;
  }

  // Null: this is not the address of a record that is in use.
  Record* find(const void* handle) const {
    for (const std::atomic<Record*>& place : records_) {
      Record* const known = place.load(std::memory_order_acquire);
      if (known == nullptr || static_cast<const void*>(known) != handle) continue;
      return known->is_in_use() ? known : nullptr;
    }
    return nullptr;
  }

  // One that exists.
  Record& at(size_t number) const { return *records_[number].load(std::memory_order_acquire); }

  void note_fork_child() {
    for (const std::atomic<Record*>& place : records_) {
      Record* const known = place.load(std::memory_order_relaxed);
      if (known != nullptr) known->note_fork_child();
    }
  }

 private:
  std::atomic<Record*> records_[kMost] = {};
  size_t next_ = 0;
};

}  // namespace rdmalloc
