// The board between those who change memory and those who keep registrations of it. The cache here
// is a version number.
#include "regcache/foreign/monitor/changes.h"

#include <errno.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/child.h"

namespace rdmalloc {
namespace {

constexpr uintptr_t kBase = 0x7f0000000000;
constexpr uintptr_t kEnd = kBase + 0x100000;

const void* pointer(uintptr_t address) { return reinterpret_cast<const void*>(address); }

// Keeps one registration of the range: the memory's version at registration.
struct Sink final : ChangeSink {
  std::mutex mutex;
  bool cached = false;
  bool changed = false;
  uint64_t version = 0;
  std::atomic<int> told{0};

  void on_change(uintptr_t, uintptr_t) noexcept override {
    const std::lock_guard hold(mutex);
    ++told;
    if (cached) changes.counts().count_out(kBase, kEnd);
    cached = false;
    changed = true;
    errno = EXDEV;
  }
  bool is_cached(uintptr_t base, uintptr_t end) noexcept override {
    const std::lock_guard hold(mutex);
    return cached && base < kEnd && end > kBase;
  }
};

Sink sink;

struct CountedIn {
  CountedIn(uintptr_t from, uintptr_t to) : base(from), end(to) {
    changes.counts().count_in(base, end);
  }
  ~CountedIn() { changes.counts().count_out(base, end); }
  uintptr_t base, end;
};

TEST_CASE("What is registered is told of when it changes, and nothing else") {
  changes.attach(&sink);
  const int before = sink.told;
  { const Change nothing_registered(pointer(kBase), 4096); }
  CHECK(sink.told == before);
  {
    const CountedIn counted(kBase, kEnd);
    { const Change change(pointer(kEnd - 1), 1); }
    CHECK(sink.told == before + 1);
    { const Change elsewhere(pointer(kEnd + 0x10000), 4096); }
    { const Change empty(pointer(kBase), 0); }
    CHECK(sink.told == before + 1);
    { const Change the_caller_tells(pointer(kBase), 4096, Change::kAnnounced); }
    CHECK(sink.told == before + 1);
    { const Change wrapping(pointer(kBase), SIZE_MAX); }
    CHECK(sink.told == before + 2);
  }
  CHECK(!changes.counts().may_have(kBase, kEnd));
}

TEST_CASE("A change is announced as long as it lives") {
  changes.attach(&sink);
  {
    const Change change(pointer(kBase), 4096);
    CHECK(changes.announcements().has_any_of(kBase, kBase + 1));
    CHECK(changes.announcements().has_any_of(kBase + 4095, kEnd));
    CHECK(!changes.announcements().has_any_of(kBase + 4096, kEnd));
    CHECK(!changes.announcements().has_any_of(kBase - 4096, kBase));
  }
  CHECK(!changes.announcements().has_any_of(0, UINTPTR_MAX));
}

TEST_CASE("More changes at a time than there are places for still are all announced") {
  changes.attach(&sink);
  std::deque<Change> many;
  for (int i = 0; i < 100; ++i) many.emplace_back(pointer(kBase), 4096);
  // The last one found no slot, so everything counts as announced.
  CHECK(changes.announcements().has_any_of(kEnd, kEnd + 1));
  CHECK(changes.announcements().has_any_of(kBase, kBase + 1));
  many.clear();
  CHECK(!changes.announcements().has_any_of(0, UINTPTR_MAX));
}

TEST_CASE("Long ranges are counted, and looked up, as a whole") {
  {
    const CountedIn whole(kBase, kBase + (uintptr_t{1} << 40));
    CHECK(
        changes.counts().may_have(kBase + (uintptr_t{1} << 39), kBase + (uintptr_t{1} << 39) + 1));
  }
  CHECK(!changes.counts().may_have(0, UINTPTR_MAX));
  const CountedIn page(kBase, kBase + 4096);
  CHECK(changes.counts().may_have(0, UINTPTR_MAX));
  CHECK(!changes.counts().may_have(kEnd, kEnd + 4096));
}

TEST_CASE("A change leaves errno as it was, whatever those do who are told") {
  changes.attach(&sink);
  const CountedIn counted(kBase, kEnd);
  const int before = sink.told;
  errno = ERANGE;
  { const Change change(pointer(kBase), 1); }
  CHECK(errno == ERANGE);
  CHECK(sink.told == before + 1);
}

TEST_CASE("A thread that waits for all changes goes on once they are reported") {
  changes.hold_up();
  changes.hold_up();
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    changes.wait_until_told();
    waited = true;
  });
  changes.go_on();
  CHECK(changes.is_held_up());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!waited);
  changes.go_on();
  waiter.join();
  CHECK(!changes.is_held_up());
}

TEST_CASE("What is mapped waits for a late monitor only where something is registered") {
  struct Late final : LateMonitor {
    int caught_up = 0;
    void wait_until_told() noexcept override {}
    void catch_up() noexcept override { ++caught_up; }
    void let_go(uintptr_t, size_t) noexcept override {}
  } late;
  changes.attach(&sink);
  changes.catch_up(kBase, kEnd);
  changes.attach_late(&late);
  changes.catch_up(kBase, kEnd);
  CHECK(late.caught_up == 0);
  {
    const CountedIn counted(kBase, kEnd);
    changes.catch_up(kBase, kEnd);
    CHECK(late.caught_up == 0);  // it no longer belongs to the cache
    sink.cached = true;
    changes.catch_up(kBase, kEnd);
    CHECK(late.caught_up == 1);
    sink.cached = false;
  }
  changes.attach_late(nullptr);
}

// Each change raises the memory's version; a registration has the version current when it is made.
// `looks`: whether the registering thread looks for announcements.
uint64_t race(bool looks) {
  changes.attach(&sink);
  std::atomic<uint64_t> version{1};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> stale{0};
  std::atomic<uint64_t> kept{0};
  const auto change_it = [&] {
    while (!stop) {
      uint64_t mine = 0;
      {
        const Change change(pointer(kBase), kEnd - kBase);
        std::this_thread::yield();  // others register the old memory now
        mine = ++version;
      }
      {
        const std::lock_guard hold(sink.mutex);
        if (sink.cached && sink.version < mine) ++stale;
      }
      for (int i = 0; i < 4; ++i) std::this_thread::yield();  // a registration is kept meanwhile
    }
  };
  std::thread changers[2] = {std::thread(change_it), std::thread(change_it)};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (std::chrono::steady_clock::now() < end && kept < 20000 && (looks || stale < 10)) {
    {
      const std::lock_guard hold(sink.mutex);
      if (sink.cached) continue;
      sink.changed = false;
    }
    changes.counts().count_in(kBase, kEnd);
    const bool announced = looks && changes.announcements().has_any_of(kBase, kEnd);
    const uint64_t registered = version;
    const std::lock_guard hold(sink.mutex);
    if (announced || sink.changed) {
      changes.counts().count_out(kBase, kEnd);
    } else {
      sink.version = registered;
      sink.cached = true;
      ++kept;
    }
  }
  stop = true;
  for (std::thread& changer : changers) changer.join();
  sink.on_change(kBase, kEnd);
  CHECK(!changes.counts().may_have(kBase, kEnd));
  CHECK(kept > 0);
  return stale;
}

TEST_CASE("No registration made before a change is kept after it, in three threads") {
  CHECK(race(true) == 0);
}

TEST_CASE("Control: without looking for announcements stale registrations stay") {
  CHECK(race(false) > 0);
}

TEST_CASE("In the child of a fork nothing is registered, announced or held up") {
  changes.attach(&sink);
  const CountedIn counted(kBase, kEnd);
  const Change change(pointer(kBase), 4096);
  changes.hold_up();
  const test::ChildEnd end = test::run_child([] {
    changes.note_fork_child();
    return !changes.counts().may_have(0, UINTPTR_MAX) &&
           !changes.announcements().has_any_of(0, UINTPTR_MAX) && !changes.is_held_up();
  });
  changes.go_on();
  CHECK(end.exited_well());
  CHECK(changes.announcements().has_any_of(kBase, kBase + 1));
}

}  // namespace
}  // namespace rdmalloc
