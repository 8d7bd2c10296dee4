// The recorder inside a program: records what the malloc family (recorded_malloc.cpp) and the C++
// operators (recorded_operators.cpp) report in the process's raw file (raw_format.h).
//
// Everything here may run inside malloc, before libc is initialised, in a forked child, in a signal
// handler, and after main: nothing allocates, throws, takes a lock or is torn down. Each thread
// writes to its own chunks.
#pragma once

#include <features.h>
#if __GLIBC_PREREQ(2, 32)
#include <sys/single_threaded.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "allocator/os/page_size.h"
#include "allocator/trace/raw_format.h"
#include "allocator/trace/ticks.h"

namespace rdmalloc::trace {

// Where a thread writes next. The kernel wipes this memory in a forked child, however it was
// forked: the child finds no room here and starts a file of its own.
struct ThreadState {
  uint32_t* at = nullptr;
  uint32_t* end = nullptr;
  uint64_t written = 0;  // stamp of the last call in the file
  uint64_t address = 0;  // ... and its address
  RawKind kind = RawKind::kNone;
  uint64_t last_stamp = 0;  // when the clock was last read
  uint32_t unstamped = 0;   // calls that may still use that stamp
  uint32_t run = 0;         // how many could when it was read
  uint32_t thread = 0;      // number plus 1; 0: none yet
  uint32_t chunk_bytes = 0;
  uint64_t dropped = 0;
};

extern thread_local constinit ThreadState* thread_state;

struct Call {
  RawKind kind;
  uint64_t address;
  uint64_t size;
  uint64_t alignment_log2;  // or kRefused
  uint64_t stamp;
};

// When there is no room: starts the recording, takes a chunk, or counts the call as dropped.
void record_slowly(const Call& call);

// One instruction on x86, so that a signal handler that allocates gets a place of its own.
inline uint32_t* take_place(ThreadState& from, size_t units) {
  uint64_t place = units * sizeof(uint32_t);
#if defined(__x86_64__)
  asm("xaddq %0, %1" : "+r"(place), "+m"(from.at));
  return reinterpret_cast<uint32_t*>(place);
#else
  return __atomic_fetch_add(&from.at, place, __ATOMIC_RELAXED);
#endif
}

// One unit, or two at once; not aligned.
template <typename Number>
void put(uint32_t* place, Number number) {
  // NOLINTNEXTLINE(clang-analyzer-unix.cstring.NullArg): it does not see that xaddq sets the place
  __builtin_memcpy(place, &number, sizeof number);
}

// Keeps the writes in this order, for a reader after the process was killed in between.
inline void in_order() { __atomic_signal_fence(__ATOMIC_RELEASE); }

inline void note_last(ThreadState& mine, const Call& call) {
  if (call.stamp > mine.written) mine.written = call.stamp;
  mine.address = call.address;
  mine.kind = call.kind;
}

// The full form of a call that is not near.
[[gnu::noinline]] void record_in_full(const Call& call);

// The unit of a near call, or 0.
inline uint32_t near_unit(const ThreadState& mine, const Call& call) {
  const auto bytes = static_cast<int64_t>(call.address - mine.address);
  const int64_t distance = bytes / kDistance;
  if (bytes % kDistance != 0) return 0;
  if (call.kind == RawKind::kFree) {
    return is_near(distance, kFreeDistanceBits) ? raw_near_free(distance) : 0;
  }
  const bool small = call.kind == RawKind::kAllocate && call.size < 1U << kNearSizeBits &&
                     call.alignment_log2 == 0 && is_near(distance, kAllocateDistanceBits);
  return small ? raw_near_allocate(call.size, distance) : 0;
}

inline void record(RawKind kind, const void* pointer, uint64_t size, uint64_t alignment_log2,
                   uint64_t stamp) {
  const Call call{kind, reinterpret_cast<uintptr_t>(pointer), size, alignment_log2, stamp};
  ThreadState& mine = *thread_state;
  const uint32_t unit = near_unit(mine, call);
  // A stamp taken before that of a nested call counts as the same.
  const uint64_t ticks = stamp > mine.written ? stamp - mine.written : 0;
  if (unit == 0 || ticks >= kTicksEnd) return record_in_full(call);
  const size_t units = ticks == 0 ? 1 : 2;
  uint32_t* place = take_place(mine, units);
  if (place + units > mine.end) [[unlikely]]
    return record_slowly(call);
  if (ticks == 0) {
    put(place, unit);
  } else {
    put(place, raw_ticks(ticks) | static_cast<uint64_t>(unit) << 32);
  }
  note_last(mine, call);
}

// Whether the process has no thread but this one; an older glibc does not tell.
inline bool is_single_threaded() {
#if __GLIBC_PREREQ(2, 32)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

inline uint64_t fresh_stamp(ThreadState& of) {
  // While there is one thread, the order of calls is known without stamps. If it calls malloc more
  // often than this, only one call in kRun + 1 reads the counter, because that takes longer than a
  // malloc call.
  constexpr uint32_t kRun = 7;
  constexpr uint64_t kDense = 512;  // ticks for each call
  const uint64_t now = now_ticks();
  const bool dense = now - of.last_stamp < kDense * (of.run + 1);
  of.run = dense ? kRun : 0;
  of.unstamped = of.run;
  of.last_stamp = now;
  return now;
}

// The time of a call. Calls for large objects always have their own: allocators give these whole
// pages, so the address is the beginning of a page, or of the second 16 bytes of one (glibc).
inline uint64_t stamp_of(const void* address) {
  const uintptr_t within_page = os::page_size() - 1;
  constexpr uintptr_t kHeader = 16;
  ThreadState& mine = *thread_state;
  const bool large = (reinterpret_cast<uintptr_t>(address) & within_page & ~kHeader) == 0;
  if (is_single_threaded() && mine.unstamped != 0 && !large) {
    --mine.unstamped;
    return mine.last_stamp;
  }
  return fresh_stamp(mine);
}

// The time of a call that gives an object back. If it were read early, the object could seem to be
// gone before another thread resizes it in place and hands it over, and no later call of the two
// threads would reveal the mistake. For calls that hand an object out, the packer can tell.
inline uint64_t stamp_of_return(const void* address) {
  if (!is_single_threaded()) wait_for_earlier_loads();
  return stamp_of(address);
}

// Whether the thread's last record since this was made is a call of this kind for this address. An
// allocation means that the function which returned the address is built on one of ours; a free,
// likewise for the function that got it. It must be the last record: allocators make allocations of
// their own before.
class Since {
 public:
  Since() : at_(thread_state->at) {}

  bool was_recorded(const void* pointer) const {
    const ThreadState& mine = *thread_state;
    const bool is_new = mine.end != nullptr && mine.at != at_;
    return is_new && mine.address == reinterpret_cast<uintptr_t>(pointer);
  }
  bool was_freed(const void* pointer) const {
    return was_recorded(pointer) && thread_state->kind == RawKind::kFree;
  }

 private:
  const uint32_t* at_;
};

// As records name an alignment; 0 where the call names none.
inline unsigned logarithm(size_t alignment) {
  return alignment == 0 ? 0 : static_cast<unsigned>(std::bit_width(alignment) - 1);
}

}  // namespace rdmalloc::trace
