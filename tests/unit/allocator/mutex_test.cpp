#include "allocator/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "allocator/os/cpu_clock.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"

namespace rdmalloc {
TEST_CASE("locks are taken from the outer rank to the inner one") {
  Mutex growth(Rank::kGrowth);
  Mutex pool(Rank::kPool);
  for (int i = 0; i < 2; ++i) {
    Locked outer(growth);
    Locked inner(pool);
  }
  Locked alone(pool);
  SUCCEED();
}

TEST_CASE("a debug build dies when locks are taken the other way round") {
  CHECK(test::crashes([] {
    Mutex growth(Rank::kGrowth);
    Mutex pool(Rank::kPool);
    Locked inner(pool);
    Locked outer(growth);
  }));
}

TEST_CASE("a debug build dies when a lock is taken twice") {
  CHECK(test::crashes([] {
    Mutex pool(Rank::kPool);
    Locked once(pool);
    Locked twice(pool);
  }));
}

TEST_CASE("a child that takes the locks in order lives") {
  const test::ChildEnd end = test::run_child([] {
    Mutex growth(Rank::kGrowth);
    Mutex pool(Rank::kPool);
    Locked outer(growth);
    Locked inner(pool);
  });
  CHECK(end.exited_well());
}

TEST_CASE("one thread at a time has a lock") {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  Mutex pool(Rank::kPool);
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        Locked hold(pool);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == kThreads * kRounds);
}

TEST_CASE("a thread that waits for a lock for long leaves the processor to others") {
  using namespace std::chrono_literals;
  Mutex pool(Rank::kPool);
  uint64_t used_ns = 0;
  std::thread waiting;
  {
    Locked hold(pool);
    waiting = std::thread([&] {
      { Locked wait(pool); }
      used_ns = os::thread_cpu_ns();
    });
    std::this_thread::sleep_for(300ms);
  }
  waiting.join();
  CHECK(used_ns < 100'000'000);
}

}  // namespace rdmalloc
