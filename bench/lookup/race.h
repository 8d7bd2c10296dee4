// Times one way of finding keys, in threads that run concurrently.
#pragma once

#include <time.h>

#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/lookup/buffer.h"
#include "bench/support/contest.h"

namespace rdmalloc::bench {

// Throughput: the addresses are known in advance, so the processor overlaps calls. Latency: each
// address is computed from the previous answer, so no call starts before the previous one has
// ended.
enum class Mode { kThroughput, kLatency };

inline uint64_t now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000U + static_cast<uint64_t>(time.tv_nsec);
}

// Binds thread number `self` to a processor of its own, as far as there are enough.
void bind_to_a_processor(size_t self);

// Zero, unknown to the compiler.
inline volatile uint32_t no_bits = 0;

// `find(buffer)` returns the key. The sum keeps the compiler from removing the call.
template <Mode kMode, typename Find>
[[gnu::noinline]] uint64_t walk(const Find& find, const Buffer* next, const Buffer* end) {
  const uint32_t mask = no_bits;
  uint64_t sum = 0;
  uint32_t carried = 0;
  for (; next != end; ++next) {
    const uint32_t key = find(Buffer{next->address + carried, next->length, next->index + carried});
    sum += key;
    if constexpr (kMode == Mode::kLatency) carried = key & mask;
  }
  return sum;
}

// Calls for field.random_order(thread) for about `slice_ns` of wall time. The slice's time is that
// of one call in one thread; it is undisturbed if every thread had a processor almost all of the
// time. Counts CPU time, because that includes spinning on a lock, and is least affected by other
// programs.
template <Mode kMode, typename Field, typename Find>
Slice race_once(const Field& field, size_t threads, uint64_t slice_ns, const Find& find) {
  constexpr ptrdiff_t kChunk = 4096;
  std::vector<Slice> slices(threads);
  std::barrier start(static_cast<ptrdiff_t>(threads));
  const auto run = [&](size_t self) {
    bind_to_a_processor(self);
    const std::vector<Buffer>& order = field.random_order(self);
    uint64_t sum = walk<kMode>(find, order.data(), order.data() + order.size());
    start.arrive_and_wait();
    const uint64_t started = now_ns(CLOCK_MONOTONIC);
    const uint64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t calls = 0;
    uint64_t wall = 0;
    for (; wall < slice_ns; wall = now_ns(CLOCK_MONOTONIC) - started) {
      const Buffer* chunk = order.data() + calls % order.size();
      sum += walk<kMode>(find, chunk, chunk + kChunk);
      calls += kChunk;
    }
    const uint64_t spent = now_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    asm volatile("" : : "r"(sum));
    slices[self] = {static_cast<double>(spent) / static_cast<double>(calls), spent > wall / 10 * 9};
  };
  std::vector<std::thread> others;
  for (size_t i = 0; i < threads; ++i) others.emplace_back(run, i);
  for (std::thread& other : others) other.join();
  Slice mean;
  for (const Slice& slice : slices) {
    mean.ns += slice.ns / static_cast<double>(threads);
    mean.undisturbed = mean.undisturbed && slice.undisturbed;
  }
  return mean;
}

// Retries a few times while other programs take the processors: threads that do not run
// concurrently do not contend for a lock either.
template <Mode kMode, typename Field, typename Find>
Slice race(const Field& field, size_t threads, uint64_t slice_ns, const Find& find) {
  constexpr int kTries = 4;
  Slice slice;
  for (int i = 0; i < kTries; ++i) {
    slice = race_once<kMode>(field, threads, slice_ns, find);
    if (slice.undisturbed) break;
  }
  return slice;
}

}  // namespace rdmalloc::bench
