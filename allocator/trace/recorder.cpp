#include "allocator/trace/recorder.h"

#include <atomic>

#include "allocator/os/keep_errno.h"
#include "allocator/os/memory_calls.h"
#include "allocator/os/page_size.h"
#include "allocator/trace/next_malloc.h"
#include "allocator/trace/raw_writer.h"

namespace rdmalloc::trace {
namespace {

enum State : uint32_t { kNew, kStarting, kRecording, kOff };

// Wiped in a forked child, like the threads' states: the child begins anew.
struct Process {
  std::atomic<uint32_t> state;  // a State
};

// The state of threads that have none yet: it has no room.
constinit ThreadState nowhere;

std::atomic<Process*> process{nullptr};
// Threads' states, also in wiped memory. A thread that ends keeps its state.
std::atomic<ThreadState*> stock{nullptr};
constexpr size_t kStockBytes = 64 << 10;

constinit RawWriter writer;

// Inside record_slowly(): calls of a signal handler that allocates meanwhile are not recorded.
thread_local bool busy = false;

void* map_wiped(size_t bytes) {
  void* memory =
      os::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (os::madvise(memory, bytes, MADV_WIPEONFORK) == 0) return memory;
  (void)os::munmap(memory, bytes);
  return nullptr;
}

Process* find_process() {
  Process* known = process.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  auto* made = static_cast<Process*>(map_wiped(os::page_size()));
  if (made == nullptr) return nullptr;
  if (process.compare_exchange_strong(known, made)) return made;
  (void)os::munmap(made, os::page_size());
  return known;
}

// Whether calls are to be recorded. One thread starts the recording and the others wait for it:
// otherwise what they allocate meanwhile would be missing.
bool is_recording() {
  Process* mine = find_process();
  if (mine == nullptr) return false;
  uint32_t state = mine->state.load(std::memory_order_acquire);
  if (state == kRecording) return true;
  if (state == kNew && mine->state.compare_exchange_strong(state, kStarting)) {
    // In a forked child the stock is the parent's, and wiped: it would give a new thread the
    // thread_state that this one has.
    stock.store(nullptr, std::memory_order_relaxed);
    thread_state = &nowhere;
    state = writer.start() ? kRecording : kOff;
    mine->state.store(state, std::memory_order_release);
  }
  while (state == kStarting) {
    (void)os::system_call(SYS_sched_yield);
    state = mine->state.load(std::memory_order_acquire);
  }
  return state == kRecording;
}

ThreadState* take_thread_state() {
  constexpr size_t kStates = kStockBytes / sizeof(ThreadState);
  ThreadState* first = stock.load(std::memory_order_acquire);
  // The number identifies a state only in the stock that it was taken from, so it is counted in
  // that stock's first state.
  while (true) {
    if (first != nullptr) {
      const uint32_t number = __atomic_add_fetch(&first->thread, 1, __ATOMIC_RELAXED);
      if (number < kStates) return first + number;
    }
    auto* fresh = static_cast<ThreadState*>(map_wiped(kStockBytes));
    if (fresh == nullptr) return nullptr;
    if (stock.compare_exchange_strong(first, fresh)) {
      first = fresh;
    } else {
      (void)os::munmap(fresh, kStockBytes);
    }
  }
}

// A chunk for the calling thread, whose first call has this stamp. False: nothing is recorded.
bool make_room(uint64_t stamp) {
  if (!is_recording()) return false;
  if (thread_state == &nowhere) {
    ThreadState* mine = take_thread_state();
    if (mine == nullptr) return false;
    *mine = ThreadState{};
    thread_state = mine;
  }
  ThreadState& mine = *thread_state;
  if (mine.thread == 0) mine.thread = writer.count_thread() + 1;
  size_t bytes = mine.chunk_bytes == 0 ? first_chunk() : mine.chunk_bytes * size_t{2};
  if (bytes > kLongestChunk) bytes = kLongestChunk;
  uint32_t* first = writer.take_chunk(mine.thread - 1, bytes, stamp);
  if (first == nullptr) {
    process.load(std::memory_order_relaxed)->state.store(kOff, std::memory_order_release);
    return false;
  }
  mine.chunk_bytes = static_cast<uint32_t>(bytes);
  mine.written = stamp;
  mine.address = 0;
  mine.end = first + bytes / sizeof(uint32_t) - kChunkHeaderUnits;
  mine.at = first;
  return true;
}

// Each thread counts its own dropped calls, because a shared counter would slow them down.
void drop() {
  constexpr uint64_t kTogether = 256;
  ThreadState& mine = *thread_state;
  mine.at = nullptr;
  mine.end = nullptr;
  if (&mine != &nowhere && ++mine.dropped < kTogether) return;
  writer.count_dropped(&mine == &nowhere ? 1 : mine.dropped);
  mine.dropped = 0;
}

}  // namespace

thread_local constinit ThreadState* thread_state = &nowhere;

void record_in_full(const Call& call) {
  ThreadState& mine = *thread_state;
  uint64_t ticks = call.stamp > mine.written ? call.stamp - mine.written : 0;
  const bool far = ticks >= kNearEnd;
  if (far) ticks = 0;
  const bool has_size = call.kind != RawKind::kFree && call.kind != RawKind::kResizeBegin;
  // A kTime gives this call its stamp, so that the size may take the place of the ticks.
  const bool has_more = has_size && (ticks != 0 || call.size >= kNearEnd ||
                                     call.alignment_log2 != 0 || call.kind == RawKind::kResizeEnd);
  constexpr size_t kWord = 2;  // units
  const size_t units = kWord * (size_t{1} + far + has_more);
  uint32_t* place = take_place(mine, units);
  if (place + units > mine.end) [[unlikely]]
    return record_slowly(call);
  if (far) {
    put(place, raw_time(call.stamp));
    place += kWord;
  }
  if (has_more) put(place + kWord, raw_more(call.alignment_log2, call.size));
  in_order();
  put(place, raw_event(call.kind, has_size && !has_more ? call.size : ticks, call.address));
  note_last(mine, call);
}

[[gnu::noinline]] void record_slowly(const Call& call) {
  // The allocations of looking up malloc are not the program's.
  if (is_looking_up()) return;
  if (busy) {
    writer.count_dropped(1);
    return;
  }
  const os::KeepErrno keep;
  busy = true;
  if (make_room(call.stamp)) {
    record(call.kind, reinterpret_cast<const void*>(call.address), call.size, call.alignment_log2,
           call.stamp);
  } else {
    drop();
  }
  busy = false;
}

}  // namespace rdmalloc::trace
