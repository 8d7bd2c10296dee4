#include "bench/shm/partner.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "bench/support/median.h"
#include "tests/support/child.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kLongest = 4096;
constexpr unsigned kOffsets = 64;
constexpr size_t kLine = 64;
// After this many polls without an answer, another program has the processor that the partner
// needs.
constexpr unsigned kPollsToYield = 2000;

// Several at once, because one step of the clock is a tenth of a round trip.
constexpr unsigned kTimedAtOnce = 8;

double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

[[noreturn]] void give_up(const char* what) {
  fprintf(stderr, "bench_shm: %s: %s\n", what, rdm_shm_last_error());
  exit(EXIT_FAILURE);
}

// The two communicating ranks get a processor each if there are two: on one they would only
// alternate.
void stay_on(unsigned index) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  if (static_cast<unsigned>(CPU_COUNT(&allowed)) <= index) return;
  int processor = -1;
  for (unsigned seen = 0; seen <= index; ++seen) {
    do ++processor;
    while (!CPU_ISSET(processor, &allowed));
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  sched_setaffinity(0, sizeof one, &one);
}

rdm_shm* enter(const std::string& name, unsigned layout, unsigned procs, unsigned rank) {
  rdm_shm_plan_options plan = {};
  plan.size = sizeof plan;
  plan.procs = procs;
  plan.layout = layout;
  rdm_shm* segment = nullptr;
  const int status = rank == 0 ? rdm_shm_create(name.c_str(), &plan, rank, nullptr, &segment)
                               : rdm_shm_attach(name.c_str(), rank, nullptr, &segment);
  if (status != RDM_OK || rdm_shm_commit(segment, RDM_OK) != RDM_OK) give_up("a segment");
  return segment;
}

// False: nothing arrived for a while.
bool receive(rdm_shm* segment, rdm_shm_message* out) {
  for (unsigned i = 0; i < kPollsToYield; ++i) {
    if (rdm_shm_poll(segment, out) == RDM_OK) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

// Does what a receiver does: copies the message to its destination, and returns the fragment before
// it answers. If it returned it later, a race of a few ns would decide whether the sender finds it
// for its next message, and that makes a difference of a fifth of a round trip.
void take(rdm_shm* segment, const rdm_shm_message& message, char* to) {
  memcpy(to, message.data, message.length);
  asm volatile("" : : "r"(to) : "memory");  // as if the data were read
  rdm_shm_release(segment, &message);
}

[[noreturn]] void echo(rdm_shm* segment) {
  char bytes[kLongest];
  for (;;) {
    rdm_shm_message message;
    if (!receive(segment, &message)) {
      // Between the slices of this segment, it must not use a processor.
      if (rdm_shm_wait(segment, 1000) == RDM_PEER_DIED) _exit(0);
      continue;
    }
    take(segment, message, bytes);
    while (rdm_shm_send(segment, message.from, message.tag, bytes, message.length) == RDM_AGAIN) {
      sched_yield();
    }
  }
}

pid_t start(const std::string& name, unsigned layout, unsigned procs, unsigned rank) {
  const pid_t child = test::fork_bound();
  if (child != 0) return child;
  rdm_shm* segment = enter(name, layout, procs, rank);
  if (rank == 1) {
    stay_on(1);
    echo(segment);
  }
  for (;;) pause();
}

}  // namespace

Partner::Partner(unsigned layout, unsigned procs) {
  static int number = 0;
  const std::string name =
      "rdmalloc-bench-" + std::to_string(getpid()) + "-" + std::to_string(++number);
  for (unsigned rank = 1; rank < procs; ++rank) {
    others_.push_back(start(name, layout, procs, rank));
  }
  segment_ = enter(name, layout, procs, 0);
  stay_on(0);
}

Partner::~Partner() {
  for (const pid_t other : others_) test::kill_child(other);
  rdm_shm_detach(segment_);
}

void Partner::ping(size_t length, unsigned number) {
  // Uses a different offset in the page each time: the speed of a copy depends on where in their
  // pages the two sides lie, which might favour one layout.
  static const char bytes[kLongest + kOffsets * kLine] = {};
  const char* const from = bytes + number % kOffsets * kLine;
  if (rdm_shm_send(segment_, 1, number, from, length) != RDM_OK) give_up("sending");
  rdm_shm_message message;
  while (!receive(segment_, &message)) sched_yield();
  if (message.tag != number || message.length != length) give_up("a wrong reply");
  char reply[kLongest];
  take(segment_, message, reply);
}

double Partner::round_trip(size_t length, unsigned count) {
  // Warm up: the partner is asleep.
  for (unsigned i = 0; i < count / 4; ++i) ping(length, i);
  times_.clear();
  for (unsigned i = 0; i < count; i += kTimedAtOnce) {
    const double start = now_ns();
    for (unsigned k = 0; k < kTimedAtOnce; ++k) ping(length, i + k);
    times_.push_back((now_ns() - start) / kTimedAtOnce);
  }
  return median(times_);
}

}  // namespace rdmalloc::bench
