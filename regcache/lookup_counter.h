// How many keys the process asked for: counted on every hit, so without a lock and without sharing
// cache lines between threads, and in as few bytes of code as can be (see Domain::lookup).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class LookupCounter {
 public:
  using Place = std::atomic<uint64_t>;

  // Where the calling thread counts; null until it has called count() once.
  static Place* place() { return place_; }

  // Not atomic as a whole: only its thread adds to a place. Exact while at most kPlaces threads
  // have ever looked up; two that share one may lose some.
  static void add_one(Place* place) {
#ifdef __x86_64__
    // The compiler makes three instructions of it.
    asm("incq %0" : "+m"(*place));
#else
    place->store(place->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
#endif
  }

  static void count() {
    if (place_ == nullptr) {
      place_ = &lines_[next_.fetch_add(1, std::memory_order_relaxed) % kPlaces].value;
    }
    add_one(place_);
  }

  static uint64_t sum() {
    uint64_t all = 0;
    for (const Line& line : lines_) all += line.value.load(std::memory_order_relaxed);
    return all;
  }

 private:
  static constexpr uint32_t kPlaces = 64;
  struct alignas(64) Line {
    Place value;
  };

  static inline constinit Line lines_[kPlaces];
  static inline constinit std::atomic<uint32_t> next_{0};
  // initial-exec: the general model may call malloc at a thread's first use.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Place* place_ = nullptr;
};

}  // namespace rdmalloc
