#include "allocator/os/processor_lock.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/fake_process_barrier.h"

namespace rdmalloc {
namespace {

struct Place {
  os::ProcessorLock lock{0};
  std::atomic<int> owners{0};
};

struct Fixture {
  explicit Fixture(bool has_barrier = true) {
    fake::process_barrier.is_there = has_barrier;
    fake::process_barrier.works = true;
    os::enable_processor_locks();
  }
  ~Fixture() { fake::process_barrier.is_there = fake::process_barrier.works = true; }

  Place* lock_own() { return static_cast<Place*>(os::lock_own(places.data(), sizeof(Place))); }
  bool is_any_taken() const {
    for (const Place& place : places) {
      if (place.lock.load() != 0) return true;
    }
    return false;
  }

  std::vector<Place> places = std::vector<Place>(os::kMostProcessors);
};

struct WithoutBarrier : Fixture {
  WithoutBarrier() : Fixture(false) {}
};

bool needs_restarts() {
  if (os::locks_restart) return true;
  printf("SKIPPED: no restartable sequences here: another processor, kernel or libc, or tsan\n");
  return false;
}

// Holds the lock while others run. False: somebody else has it too.
bool is_alone_in(Place& place) {
  bool is_alone = place.owners.fetch_add(1) == 0;
  sched_yield();
  is_alone = place.owners.load() == 1 && is_alone;
  place.owners.fetch_sub(1);
  return is_alone;
}

// Eight threads take their processors' locks by `lock`; one of them takes everybody's now and then.
// Returns how often two had the same.
template <typename Lock>
int meetings(Fixture& f, Lock lock) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
  std::atomic<int> meetings{0};
  const auto own = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Place* const place = lock();
      if (place == nullptr) continue;
      if (!is_alone_in(*place)) ++meetings;
      os::unlock(place->lock);
    }
  };
  const auto everybodys = [&] {
    os::close_processor_locks();
    for (Place& place : f.places) {
      if (!os::try_lock(place.lock)) continue;
      if (!is_alone_in(place)) ++meetings;
      os::unlock(place.lock);
    }
    os::open_processor_locks();
  };
  std::vector<std::thread> threads;
  for (int self = 0; self < 8; ++self) {
    threads.emplace_back([&, self] {
      while (meetings == 0 && std::chrono::steady_clock::now() < until) {
        own(1000);
        if (self == 0) everybodys();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return meetings;
}

// The status of a child that does the work instruction by instruction.
template <typename Work>
int status_of_steps(Work work) {
  const pid_t child = test::start_child([&] {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    return work();
  });
  int status = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    ptrace(PTRACE_SINGLESTEP, child, nullptr, 0);
  }
  return test::ChildEnd::of(status).status();
}

}  // namespace

TEST_CASE_METHOD(Fixture,
                 "a thread gets its processor's lock, nobody else does, and it comes back") {
  Place* const place = lock_own();
  REQUIRE(place != nullptr);
  CHECK(place->lock == 1);
  CHECK_FALSE(os::try_lock(place->lock));
  os::unlock(place->lock);
  CHECK_FALSE(is_any_taken());
}

TEST_CASE_METHOD(Fixture, "one at a time has a processor's lock, however threads are preempted") {
  CHECK(meetings(*this, [this] { return lock_own(); }) == 0);
  CHECK_FALSE(is_any_taken());
}

TEST_CASE_METHOD(WithoutBarrier,
                 "one at a time has a processor's lock without restartable sequences") {
  CHECK_FALSE(os::locks_restart);
  CHECK(meetings(*this, [this] { return lock_own(); }) == 0);
}

TEST_CASE_METHOD(Fixture, "control: of those who look first and take then two have the same lock") {
  CHECK(meetings(*this, [this]() -> Place* {
          Place& place = places[os::current_processor()];
          if (place.lock.load() != 0) return nullptr;
          sched_yield();
          place.lock.store(1);
          return &place;
        }) > 0);
}

TEST_CASE_METHOD(Fixture,
                 "a thread that is interrupted in each instruction gets no lock, and takes none") {
  if (!needs_restarts()) return;
  const auto try_once = [this] {
    return (lock_own() != nullptr ? 1 : 0) + (is_any_taken() ? 2 : 0);
  };
  CHECK(status_of_steps(try_once) == 0);
  // The control: an exchange is one instruction, which nobody interrupts.
  os::stop_restarting();
  CHECK(status_of_steps(try_once) == 3);
}

TEST_CASE_METHOD(Fixture,
                 "while the locks are closed those of other processors can be taken alone") {
  if (!needs_restarts()) return;
  os::close_processor_locks();
  CHECK(lock_own() == nullptr);
  os::close_processor_locks();
  os::open_processor_locks();
  CHECK(lock_own() == nullptr);
  CHECK(os::try_lock(places[1].lock));
  os::unlock(places[1].lock);
  os::open_processor_locks();
  CHECK(lock_own() != nullptr);
}

TEST_CASE_METHOD(Fixture, "where the barrier comes to be refused the locks go on without it") {
  if (!needs_restarts()) return;
  fake::process_barrier.works = false;
  os::close_processor_locks();
  os::open_processor_locks();
  CHECK_FALSE(os::locks_restart);
  const int calls = fake::process_barrier.calls;
  CHECK(meetings(*this, [this] { return lock_own(); }) == 0);
  CHECK(fake::process_barrier.calls == calls);
}

TEST_CASE_METHOD(Fixture, "a child of fork has open locks, whoever had closed them") {
  os::close_processor_locks();  // by a thread that the child does not have
  os::close_processor_locks();
  const auto end = test::run_child([this] {
    os::renew_processor_locks();
    os::open_processor_locks();
    return lock_own() != nullptr && meetings(*this, [this] { return lock_own(); }) == 0;
  });
  CHECK(end.exited_well());
  os::open_processor_locks();
  os::open_processor_locks();
}

}  // namespace rdmalloc
