// Counts of what happens on every hit: without a lock, without sharing cache lines between threads,
// and in as few bytes of code as possible (see Domain::lookup).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"

namespace rdmalloc {

// One count for each type `What`. Threads count in places of their own, or share one when there
// have been more threads than places.
template <class What>
class ThreadCounter {
 public:
  using Place = std::atomic<uint64_t>;
  static constexpr uint32_t kPlaces = 64;

  // Where the calling thread counts; null until it has called count() or index() once.
  static Place* place() { return place_; }

  // The number of the thread's place.
  static uint32_t index() {
    if (place_ == nullptr) take_place();
    return index_of(place_);
  }
  static uint32_t index_of(const Place* place) {
    return reinterpret_cast<const Line*>(place)->index.load(std::memory_order_relaxed);
  }
  static std::atomic<uint32_t>& hint(Place* place) { return reinterpret_cast<Line*>(place)->hint; }

  // Not atomic as a whole: only its thread adds to a place. Exact while at most kPlaces threads
  // have ever counted; two that share one may lose some.
  static void add_one(Place* place) {
#ifdef __x86_64__
    // The compiler makes three instructions of it.
    asm("incq %0" : "+m"(*place));
#else
    place->store(place->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
#endif
  }

  static void count() {
    if (place_ == nullptr) take_place();
    add_one(place_);
  }

  static uint64_t sum() {
    uint64_t all = 0;
    for (const Line& line : lines_) all += line.value.load(std::memory_order_relaxed);
    return all;
  }

 private:
  struct alignas(os::kCacheLine) Line {
    Place value;
    std::atomic<uint32_t> index;  // its own
    std::atomic<uint32_t> hint;   // what the counting thread may ask for next
  };

  static void take_place() {
    const uint32_t index = next_.fetch_add(1, std::memory_order_relaxed) % kPlaces;
    lines_[index].index.store(index, std::memory_order_relaxed);
    place_ = &lines_[index].value;
  }

  static inline constinit Line lines_[kPlaces];
  static inline constinit std::atomic<uint32_t> next_{0};
  // initial-exec: the general model may call malloc at a thread's first use.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Place* place_ = nullptr;
};

using LookupCounter = ThreadCounter<struct Lookups>;
using ForeignHitCounter = ThreadCounter<struct ForeignHits>;

}  // namespace rdmalloc
