#include "allocator/os/processor_lock.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/fake_process_barrier.h"

namespace rdmalloc {
namespace {

constexpr unsigned kSlots = 16;

// What a processor has: numbers, in slots. The total counts them.
struct alignas(64) Place {
  os::ProcessorLock lock;
  uint32_t taken;
  uint64_t numbers[kSlots];

  // A change that puts the number in, if there is room.
  bool add(uint64_t number, os::Change& change) {
    const uint32_t seen = __atomic_load_n(&taken, __ATOMIC_RELAXED);
    const auto slot = static_cast<unsigned>(__builtin_ctz(~seen));
    change = {&taken, seen, seen | 1U << slot, &numbers[slot % kSlots], number, true, 1};
    return slot < kSlots;
  }
  // One that takes any number out, if there is one.
  bool remove(os::Change& change) {
    const uint32_t seen = __atomic_load_n(&taken, __ATOMIC_RELAXED);
    if (seen == 0) return false;
    const auto slot = static_cast<unsigned>(__builtin_ctz(seen));
    const uint64_t number = __atomic_load_n(&numbers[slot], __ATOMIC_RELAXED);
    change = {&taken, seen, seen & (seen - 1), &numbers[slot], number, false, -1};
    return true;
  }
};

struct Fixture {
  explicit Fixture(bool has_barrier = true) {
    fake::process_barrier.is_there = has_barrier;
    fake::process_barrier.works = true;
    os::enable_sequences();
  }
  ~Fixture() { fake::process_barrier.is_there = fake::process_barrier.works = true; }

  std::unique_ptr<Place[]> places{new Place[os::kMostProcessors]()};
};

struct WithoutBarrier : Fixture {
  WithoutBarrier() : Fixture(false) {}
};

bool has_sequences() {
  if (os::sequences_at != 0) return true;
  printf("SKIPPED: no restartable sequences here: another processor, kernel or libc, or tsan\n");
  return false;
}

bool change_own(Place& place, size_t processor, const os::Change& change) {
  return place.lock.change(processor, change);
}

// Without any protection: looks, is interrupted, and writes.
bool change_carelessly(Place&, size_t, const os::Change& change) {
  if (__atomic_load_n(change.word, __ATOMIC_RELAXED) != change.seen) return false;
  sched_yield();
  __atomic_store_n(change.slot, change.value, __ATOMIC_RELAXED);
  __atomic_store_n(change.word, change.word_new, __ATOMIC_RELAXED);
  return true;
}

// Eight threads exchange numbers through their processors' places, and now and then take numbers
// out of everybody's, until two have the same number or the time is over. Returns how often two
// had.
template <typename ChangeOwn>
int meetings(Fixture& f, ChangeOwn change_place,
             std::chrono::milliseconds longest = std::chrono::milliseconds(400)) {
  constexpr size_t kNumbers = 64;
  const auto until = std::chrono::steady_clock::now() + longest;
  std::atomic<int> owners[kNumbers] = {};
  std::atomic<int> meetings{0};
  const auto got = [&](uint64_t number) {
    if (owners[number].fetch_add(1) != 0) ++meetings;
  };
  const auto work = [&](std::vector<uint64_t> mine, bool takes_elsewhere) {
    for (size_t i = 0; meetings == 0 && std::chrono::steady_clock::now() < until; ++i) {
      os::Change change;
      const size_t processor = os::current_processor();
      Place& here = f.places[processor];
      if (!mine.empty() && here.add(mine.back(), change)) {
        const uint64_t number = mine.back();
        owners[number].fetch_sub(1);
        if (change_place(here, processor, change)) {
          mine.pop_back();
        } else {
          owners[number].fetch_add(1);
        }
      }
      if (here.remove(change) && change_place(here, processor, change)) {
        got(change.value);
        mine.push_back(change.value);
      }
      if (!takes_elsewhere || i % 256 != 0) continue;
      for (size_t other = 0; other < 64; ++other) {
        Place& place = f.places[other];
        if (!place.remove(change)) continue;
        place.lock.close(other);
        if (place.remove(change) && place.lock.change_by_lock(change)) {
          got(change.value);
          mine.push_back(change.value);
        }
        place.lock.open();
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t self = 0; self < 8; ++self) {
    std::vector<uint64_t> mine;
    for (size_t i = self * 8; i < self * 8 + 8; ++i) {
      mine.push_back(i);
      owners[i] = 1;
    }
    threads.emplace_back(work, mine, self == 0);
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

TEST_CASE_METHOD(Fixture, "what a thread puts into its processor's place it finds there, once") {
  const size_t processor = os::current_processor();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  Place& place = places[processor];
  os::Change change;
  for (uint64_t number = 1; number <= kSlots; ++number) {
    REQUIRE(place.add(number, change));
    // Interrupted sometimes.
    while (!place.lock.change(processor, change)) REQUIRE(place.add(number, change));
  }
  CHECK_FALSE(place.add(99, change));
  CHECK(place.lock.total() == kSlots);
  uint64_t sum = 0;
  while (place.remove(change)) {
    if (place.lock.change(processor, change)) sum += change.value;
  }
  CHECK(sum == kSlots * (kSlots + 1) / 2);
  CHECK(place.lock.total() == 0);
  CHECK_FALSE(place.lock.change(processor, change));  // that number is gone
  sched_setaffinity(0, sizeof before, &before);
}

TEST_CASE_METHOD(Fixture, "no two threads take the same out, however they are preempted") {
  CHECK(meetings(*this, change_own) == 0);
}

TEST_CASE_METHOD(WithoutBarrier, "nor do they without restartable sequences") {
  CHECK(os::sequences_at == 0);
  CHECK(meetings(*this, change_own) == 0);
}

TEST_CASE_METHOD(Fixture, "control: threads that look first and write then take the same out") {
  CHECK(meetings(*this, change_carelessly, std::chrono::seconds(30)) > 0);
}

TEST_CASE_METHOD(Fixture, "a thread that is interrupted in each instruction changes nothing") {
  if (!has_sequences()) return;
  const auto try_once = [this] {
    const size_t processor = os::current_processor();
    Place& place = places[processor];
    os::Change change;
    (void)place.add(1, change);
    const bool is_done = place.lock.change(processor, change);
    return (is_done ? 1 : 0) + (place.taken != 0 ? 2 : 0) + (place.lock.total() != 0 ? 4 : 0);
  };
  CHECK(status_of_steps(try_once) == 0);
  // The control: the lock keeps others out, however long its holder takes.
  os::stop_sequences();
  CHECK(status_of_steps(try_once) == 7);
}

TEST_CASE_METHOD(Fixture, "a place that somebody has locked is changed by nobody else") {
  const size_t processor = os::current_processor();
  Place& place = places[processor];
  os::Change change;
  REQUIRE(place.add(1, change));
  place.lock.close(processor);
  place.lock.close(processor);
  place.lock.open();
  CHECK(place.lock.change_by_lock(change));  // still closed
  place.lock.lock();
  REQUIRE(place.remove(change));
  CHECK_FALSE(place.lock.change(processor, change));
  CHECK_FALSE(place.lock.change_by_lock(change));
  place.lock.unlock();
  CHECK(place.lock.change_by_lock(change));
  place.lock.open();
  if (!has_sequences()) return;
  REQUIRE(place.add(1, change));
  CHECK_FALSE(place.lock.change_by_lock(change));  // open to sequences
}

TEST_CASE_METHOD(Fixture, "where the barrier comes to be refused the locks go on without it") {
  if (!has_sequences()) return;
  fake::process_barrier.works = false;
  places[0].lock.close(0);
  places[0].lock.open();
  CHECK(os::sequences_at == 0);
  const int calls = fake::process_barrier.calls;
  CHECK(meetings(*this, change_own) == 0);
  CHECK(fake::process_barrier.calls == calls);
}

TEST_CASE_METHOD(Fixture, "a child of fork has open places, whoever had closed them") {
  for (size_t i = 0; i < 64; ++i) {
    places[i].lock.close(i);  // by a thread that the child does not have
    places[i].lock.close(i);
  }
  const auto end = test::run_child([this] {
    os::renew_sequences();
    for (size_t i = 0; i < 64; ++i) {
      places[i].lock.forget_others();
      places[i].lock.open();
    }
    return meetings(*this, change_own) == 0;
  });
  CHECK(end.exited_well());
}

}  // namespace rdmalloc
