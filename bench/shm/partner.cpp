#include "bench/shm/partner.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "bench/support/median.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kLongest = 4096;
constexpr unsigned kOffsets = 64;
constexpr size_t kLine = 64;
// Without an answer for so long, somebody else has the processor that the partner needs.
constexpr unsigned kPollsToYield = 2000;

// The clock's own steps are a tenth of a round trip.
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

// The two that talk get a processor each, where there are two: on one they would only take turns.
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

// False: nothing came for a while.
bool receive(rdm_shm* segment, rdm_shm_message* out) {
  for (unsigned i = 0; i < kPollsToYield; ++i) {
    if (rdm_shm_poll(segment, out) == RDM_OK) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

// As a receiver does: copies it to where it is wanted, and gives the fragment back before it
// answers. If it came back later, whether the sender still found it for its next message would
// depend on who is a few ns faster, and that decides on a fifth of a round trip.
void take(rdm_shm* segment, const rdm_shm_message& message, char* to) {
  memcpy(to, message.data, message.length);
  asm volatile("" : : "r"(to) : "memory");  // as if somebody read it
  rdm_shm_release(segment, &message);
}

[[noreturn]] void echo(rdm_shm* segment) {
  char bytes[kLongest];
  for (;;) {
    rdm_shm_message message;
    if (!receive(segment, &message)) {
      // Between the slices of this segment it must not use a processor.
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
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
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
  for (const pid_t other : others_) kill(other, SIGKILL);
  for (const pid_t other : others_) waitpid(other, nullptr, 0);
  rdm_shm_detach(segment_);
}

void Partner::ping(size_t length, unsigned number) {
  // From another offset in a page each time: how fast a copy is depends on where in their pages the
  // two sides lie, and one layout would have the luck.
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
  // It sleeps.
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
