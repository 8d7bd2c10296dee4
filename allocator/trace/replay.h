#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"
#include "allocator/trace/event.h"
#include "allocator/trace/object_table.h"
#include "allocator/trace/packed_reader.h"

namespace rdmalloc::trace {

struct ReplayOptions {
  const char* path = nullptr;
  bool touch = true;   // write to each page of each block
  bool check = false;  // write a pattern into each block, and check it before the free
  bool times = false;  // no call before its recorded time
  unsigned repeat = 1;
};

// Repeats the calls of a packed trace, through whatever malloc the process has. Each event runs in
// the thread that stands for the recorded one, and in the recorded order: the thread that runs the
// next event has the baton, and the others sleep. The first recorded thread is the one that calls
// run().
//
// Everything else works without malloc, so that a preloaded allocator serves only the trace; but
// pthread_create allocates some hundred bytes per thread.
class Replay {
 public:
  struct Result {
    Counts counts;  // of one replay of the trace
    uint64_t handovers = 0;
    uint64_t digest = 0;      // of all requests in order: independent of the allocator
    uint64_t ns = 0;          // of all repeats, without reading
    uint64_t reading_ns = 0;  // for reading the trace, including ahead
  };

  explicit Replay(const ReplayOptions& options) : options_(options) {}
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Reads the whole trace once, so that one that cannot be replayed is refused at the start. False:
  // error() says why not.
  bool open();

  // Replays it; call once. False: error() says what the allocator did wrong.
  bool run();

  const Result& result() const { return result_; }
  bool truncated() const { return reader_.truncated(); }
  const char* error() const { return error_; }

 private:
  using Object = ObjectTable::Object;

  // A thread that stands for a recorded one, or for several if very many were recorded.
  struct alignas(os::kCacheLine) Lane {
    std::atomic<uint32_t> has_baton{0};
    bool is_started = false;
    pthread_t thread{};
    Replay* replay = nullptr;
  };

  [[gnu::format(printf, 2, 3)]] bool fail(const char* format, ...);
  bool fail_at_event(const char* what);

  bool scan();
  bool check_fits();
  void note(const Event& event, uint64_t before);

  bool once();
  void run_lane(Lane& lane);
  void advance();
  void read_ahead();
  void hand_over(Lane& to);
  bool start(Lane& lane);
  void end_lanes();
  void free_what_is_left();
  void wait_for_its_time() const;
  Lane& lane_of(const Event& event) const;
  static void* enter_lane(void* lane);

  bool apply(const Event& event);
  bool allocate(const Event& event, Object& object);
  bool resize(const Event& event, Object& object);
  bool release(Object& object);
  bool fill(const Event& event, Object& object, uint64_t from);
  bool check_new(const Event& event, const Object& object);

  const ReplayOptions options_;
  PackedReader reader_;
  ObjectTable objects_;
  Result result_;
  uint64_t live_ = 0;

  Lane* lanes_ = nullptr;
  size_t lane_count_ = 0;
  // Belongs to the thread that has the baton.
  Event event_;
  bool has_event_ = false;
  // Events read ahead, so that a few clock readings suffice to separate reading from replaying.
  Event* ahead_ = nullptr;
  size_t ahead_next_ = 0;
  size_t ahead_count_ = 0;
  bool is_over_ = false;
  uint64_t events_run_ = 0;
  uint64_t start_ns_ = 0;

  char error_[512] = "";
};

}  // namespace rdmalloc::trace
