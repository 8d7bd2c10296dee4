#include "allocator/trace/replay.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "allocator/os/clock.h"
#include "allocator/os/futex.h"
#include "allocator/trace/own_memory.h"

namespace rdmalloc::trace {
namespace {

// If more threads than this were recorded, some share a thread.
constexpr size_t kMostLanes = 1024;
constexpr size_t kMostAhead = 4096;
constexpr size_t kStackSize = size_t{256} << 10;

void mix(uint64_t& digest, uint64_t number) {
  digest = (digest ^ number) * 0x9e3779b97f4a7c15;
  digest ^= digest >> 29;
}

}  // namespace

Replay::~Replay() {
  if (lanes_ != nullptr) unmap_own(lanes_, lane_count_ * sizeof(Lane));
  if (ahead_ != nullptr) unmap_own(ahead_, kMostAhead * sizeof(Event));
}

bool Replay::fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error_, sizeof error_, format, arguments);
  va_end(arguments);
  return false;
}

bool Replay::open() {
  if (!reader_.open(options_.path)) return fail("%s", reader_.error());
  if (!scan() || !check_fits()) return false;
  lane_count_ = std::clamp<size_t>(result_.counts.threads, 1, kMostLanes);
  lanes_ = static_cast<Lane*>(map_own(lane_count_ * sizeof(Lane)));
  ahead_ = static_cast<Event*>(map_own(kMostAhead * sizeof(Event)));
  if (lanes_ == nullptr || ahead_ == nullptr)
    return fail("there is no memory to replay %zu threads", lane_count_);
  return true;
}

// Memory that is written to must exist, or the kernel kills this process or another one.
bool Replay::check_fits() {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  const uint64_t peak = result_.counts.peak_bytes;
  if ((!options_.touch && !options_.check) || peak / os::page_size() <= pages) return true;
  return fail(
      "%s: %llu bytes are alive at once, more than this machine has: --touch none replays it "
      "without writing to them",
      options_.path, static_cast<unsigned long long>(peak));
}

bool Replay::scan() {
  const uint64_t start = os::now_ns();
  Counts& counts = result_.counts;
  for (Event event; reader_.next(&event);) {
    if (!objects_.reach(event.object)) return fail("there is no memory to replay so many objects");
    uint64_t& size = objects_[event.object].size;
    const uint64_t before = makes_object(event.kind) ? 0 : size;
    size = event.size;
    note(event, before);
    counts.objects = std::max(counts.objects, event.object + 1);
    counts.threads = std::max<uint64_t>(counts.threads, event.thread + 1);
  }
  if (reader_.error() != nullptr) return fail("%s", reader_.error());
  counts.events = reader_.events_read();
  result_.reading_ns = os::now_ns() - start;
  objects_.clear();
  return true;
}

// Counts an event whose object had `before` bytes.
void Replay::note(const Event& event, uint64_t before) {
  Counts& counts = result_.counts;
  live_ += event.size - before;
  counts.peak_bytes = std::max(counts.peak_bytes, live_);
  counts.duration_ns = event.time_ns;
  mix(result_.digest, static_cast<uint64_t>(event.kind) | event.alignment_log2 << 8 |
                          static_cast<uint64_t>(event.thread) << 32);
  mix(result_.digest, event.object);
  mix(result_.digest, event.size);
}

bool Replay::run() {
  const uint64_t expected = result_.digest;
  const uint64_t reading_before = result_.reading_ns;
  const uint64_t begin = start_ns_ = os::now_ns();
  bool is_good = true;
  for (unsigned i = 0; i < options_.repeat && is_good; ++i) is_good = once();
  result_.ns = os::now_ns() - begin - (result_.reading_ns - reading_before);
  end_lanes();
  if (is_good && result_.digest != expected) {
    return fail("%s changed while it was replayed", options_.path);
  }
  return is_good;
}

bool Replay::once() {
  if (events_run_ != 0) free_what_is_left();
  if (!reader_.rewind()) return fail("%s", reader_.error());
  result_.digest = live_ = events_run_ = 0;
  ahead_next_ = ahead_count_ = 0;
  if (options_.times) start_ns_ = os::now_ns();
  advance();
  lanes_[0].is_started = true;
  lanes_[0].has_baton.store(1, std::memory_order_relaxed);
  run_lane(lanes_[0]);
  return error_[0] == 0;
}

// Moves to the next event.
void Replay::advance() {
  if (ahead_next_ == ahead_count_) read_ahead();
  has_event_ = ahead_next_ < ahead_count_;
  if (has_event_) event_ = ahead_[ahead_next_++];
}

void Replay::read_ahead() {
  const uint64_t start = os::now_ns();
  ahead_next_ = ahead_count_ = 0;
  while (ahead_count_ < kMostAhead && reader_.next(&ahead_[ahead_count_])) ++ahead_count_;
  if (reader_.error() != nullptr) fail("%s", reader_.error());
  result_.reading_ns += os::now_ns() - start;
}

Replay::Lane& Replay::lane_of(const Event& event) const {
  return lanes_[event.thread % lane_count_];
}

// Waits for the baton, then runs events as long as they belong to this lane. Main's lane returns
// when there are no more, the others when the replay is over.
void Replay::run_lane(Lane& lane) {
  for (;;) {
    while (lane.has_baton.load(std::memory_order_acquire) == 0) os::wait_while(lane.has_baton, 0);
    if (is_over_) return;
    while (has_event_ && error_[0] == 0 && &lane_of(event_) == &lane) {
      if (apply(event_)) advance();
    }
    const bool is_done = !has_event_ || error_[0] != 0;
    if (is_done && &lane == lanes_) return;
    lane.has_baton.store(0, std::memory_order_relaxed);
    hand_over(is_done ? lanes_[0] : lane_of(event_));
  }
}

void Replay::hand_over(Lane& to) {
  ++result_.handovers;
  if (!to.is_started && !start(to)) {
    hand_over(lanes_[0]);
    return;
  }
  to.has_baton.store(1, std::memory_order_release);
  os::wake_all(to.has_baton);
}

bool Replay::start(Lane& lane) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackSize);
  lane.replay = this;
  const int error = pthread_create(&lane.thread, &attributes, &enter_lane, &lane);
  pthread_attr_destroy(&attributes);
  lane.is_started = error == 0;
  if (error == 0) return true;
  return fail("a thread for the trace's thread %u cannot be started: %s", event_.thread,
              strerror(error));
}

void* Replay::enter_lane(void* argument) {
  auto* lane = static_cast<Lane*>(argument);
  lane->replay->run_lane(*lane);
  return nullptr;
}

void Replay::end_lanes() {
  is_over_ = true;
  for (size_t i = 1; i < lane_count_; ++i) {
    if (!lanes_[i].is_started) continue;
    lanes_[i].has_baton.store(1, std::memory_order_release);
    os::wake_all(lanes_[i].has_baton);
    pthread_join(lanes_[i].thread, nullptr);
  }
}

void Replay::wait_for_its_time() const {
  const uint64_t due = start_ns_ + event_.time_ns;
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec until{static_cast<time_t>(due / kSecond), static_cast<long>(due % kSecond)};
  while (os::now_ns() < due) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace rdmalloc::trace
