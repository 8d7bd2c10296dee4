// The userfaultfd monitor over the real kernel: changes made by system calls that no function
// intercepts. The cache is a set of pages.
#include "regcache/foreign/monitor/userfaultfd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "allocator/os/memory.h"
#include "allocator/os/system_call.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/wake_ups.h"

#include <sys/syscall.h>

namespace rdmalloc {

Monitor* start_interposed_monitor(const char** why) {
  *why = "not in this test";
  return nullptr;
}

namespace {

const size_t kPage = os::page_size();
const size_t kLength = 16 * kPage;

struct Sink final : ChangeSink {
  std::mutex mutex;
  std::set<uintptr_t> pages;

  void on_change(uintptr_t base, uintptr_t end) noexcept override {
    const std::lock_guard hold(mutex);
    while (true) {
      const auto found = pages.lower_bound(base);
      if (found == pages.end() || *found >= end) return;
      changes.counts().count_out(*found, *found + kPage);
      pages.erase(found);
    }
  }
  bool is_cached(uintptr_t base, uintptr_t end) noexcept override {
    const std::lock_guard hold(mutex);
    const auto found = pages.lower_bound(base);
    return found != pages.end() && *found < end;
  }
  bool add(uintptr_t base, size_t length, Monitor& monitor) {
    {
      const std::lock_guard hold(mutex);
      for (uintptr_t page = base; page < base + length; page += kPage) {
        changes.counts().count_in(page, page + kPage);
        pages.insert(page);
      }
    }
    return monitor.watch(base, length);
  }
};

Sink sink;

// Null if the kernel does not allow it; reported once.
UserfaultfdMonitor* monitor() {
  static Monitor* const started = [] {
    const char* why = "";
    changes.attach(&sink);
    Monitor* const got = start_userfaultfd_monitor(&why);
    if (got == nullptr) printf("SKIPPED: no userfaultfd here: %s\n", why);
    return got;
  }();
  return static_cast<UserfaultfdMonitor*>(started);
}

char* map_pages(int kind = MAP_PRIVATE) {
  void* const got =
      mmap(nullptr, kLength, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  REQUIRE(got != MAP_FAILED);
  changes.wait_until_told();  // of what this thread unmapped there earlier
  return static_cast<char*>(got);
}

uintptr_t address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

long raw(long number, const void* at, size_t length, long third = 0, long fourth = 0,
         const void* fifth = nullptr) {
  return os::system_call(number, os::word(at), static_cast<long>(length), third, fourth,
                         os::word(fifth));
}

// What lookups see: the registration, unless they must wait.
bool is_hit(const void* at, size_t length) {
  return !changes.is_held_up() && sink.is_cached(address(at), address(at) + length);
}

void wait_for_drops() {
  while (changes.announcements().has_any_of(0, UINTPTR_MAX)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

template <typename Change>
void check_told(const char* name, int kind, size_t told_length, Change change) {
  INFO(name);
  char* const memory = map_pages(kind);
  REQUIRE(sink.add(address(memory), kLength, *monitor()));
  REQUIRE(is_hit(memory, kLength));
  CHECK(change(memory) == 0);
  CHECK(!is_hit(memory, told_length));
  changes.wait_until_told();
  CHECK(!is_hit(memory, told_length));
  munmap(memory, kLength);
  changes.wait_until_told();
  CHECK(!is_hit(memory, kLength));
  wait_for_drops();
}

TEST_CASE("Whatever unmaps, moves or drops pages is told before it returns, or lookups wait") {
  if (monitor() == nullptr) return;
  check_told("munmap", MAP_PRIVATE, kLength, [](char* at) { return raw(SYS_munmap, at, kLength); });
  check_told("munmap of a page", MAP_PRIVATE, kPage,
             [](char* at) { return raw(SYS_munmap, at, kPage); });
  check_told("mmap over a page", MAP_PRIVATE, kPage, [](char* at) {
    const long got = os::system_call(SYS_mmap, os::word(at), kPage, PROT_READ,
                                     MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return got == os::word(at) ? 0 : got;
  });
  for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
    check_told("mremap", kind, kLength, [kind](char* at) {
      char* const place = map_pages(kind);
      const long got = raw(SYS_mremap, at, kLength, kLength, MREMAP_MAYMOVE | MREMAP_FIXED, place);
      munmap(place, kLength);
      return got == os::word(place) ? 0 : got;
    });
    check_told("MADV_DONTNEED", kind, kPage,
               [](char* at) { return raw(SYS_madvise, at, kPage, MADV_DONTNEED); });
  }
  check_told("MADV_FREE", MAP_PRIVATE, kPage,
             [](char* at) { return raw(SYS_madvise, at, kPage, MADV_FREE); });
  check_told("MADV_REMOVE", MAP_SHARED, kPage,
             [](char* at) { return raw(SYS_madvise, at, kPage, MADV_REMOVE); });
}

TEST_CASE("What the kernel drops after telling is not kept for a while") {
  if (monitor() == nullptr) return;
  char* const memory = map_pages();
  REQUIRE(sink.add(address(memory), kLength, *monitor()));
  REQUIRE(raw(SYS_madvise, memory, kPage, MADV_DONTNEED) == 0);
  changes.wait_until_told();
  CHECK(changes.announcements().has_any_of(address(memory), address(memory) + kPage));
  CHECK(!changes.announcements().has_any_of(address(memory) + kPage, address(memory) + 2 * kPage));
  wait_for_drops();
  munmap(memory, kLength);
}

TEST_CASE("Unmapping what is no longer watched costs nothing") {
  if (monitor() == nullptr) return;
  char* const memory = map_pages();
  REQUIRE(sink.add(address(memory), kLength, *monitor()));
  monitor()->unwatch(address(memory), kLength);  // it is still cached, so it stays watched
  monitor()->catch_up();
  REQUIRE(sink.is_cached(address(memory), address(memory) + kPage));
  const uint32_t events = monitor()->events();
  munmap(memory, kPage);
  changes.wait_until_told();
  CHECK(monitor()->events() == events + 1);
  sink.on_change(address(memory), address(memory) + kLength);
  monitor()->unwatch(address(memory) + kPage, kLength - kPage);
  // The keeper makes one call after the other.
  char* const other = map_pages();
  REQUIRE(monitor()->watch(address(other), kPage));
  munmap(memory + kPage, kPage);
  changes.wait_until_told();
  CHECK(monitor()->events() == events + 1);
  munmap(memory, kLength);
  munmap(other, kLength);
}

TEST_CASE("Memory of which some is watched can be moved when it was let go of, and not before") {
  if (monitor() == nullptr) return;
  char* const memory = map_pages();
  REQUIRE(sink.add(address(memory) + kPage, kPage, *monitor()));
  CHECK(raw(SYS_mremap, memory, kLength, 2 * kLength, MREMAP_MAYMOVE) == -EFAULT);
  monitor()->let_go(address(memory), kLength);
  const long moved = raw(SYS_mremap, memory, kLength, 2 * kLength, MREMAP_MAYMOVE);
  CHECK((moved > 0 || moved < -4095));
  sink.on_change(address(memory), address(memory) + kLength);
  raw(SYS_munmap, reinterpret_cast<void*>(moved), 2 * kLength);
}

#ifndef __SANITIZE_THREAD__  // TSan lets no child of a threaded process start threads
TEST_CASE("Threads of ours sleep while nothing happens: none wakes by time") {
  if (monitor() == nullptr) return;
  wait_for_drops();
  // Work in progress must finish first: the last announced drop is waited for once more.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const test::WakeUps before = test::wake_ups();
  CHECK(before.threads == 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  CHECK(test::wake_ups() == before);
}

TEST_CASE("The program cannot close the monitor's descriptor") {
  if (monitor() == nullptr) return;
  const test::ChildEnd end = test::run_child([] {
    changes.note_fork_child();
    monitor()->note_fork_child();
    sink.pages.clear();
    const char* why = "";
    Monitor* const own = start_userfaultfd_monitor(&why);
    for (int fd = 0; fd < 100; ++fd) close(fd);
    void* const memory = mmap(nullptr, kLength, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == nullptr || !sink.add(address(memory), kLength, *own)) return 2;
    raw(SYS_munmap, memory, kLength);
    return is_hit(memory, kLength) ? 1 : 0;
  });
  CHECK(end.status() == 0);
}
#endif

// Gives the reader the lowest priority, so that its events wait.
void make_reader_slow() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string name;
    comm >> name;
    const auto thread = static_cast<id_t>(std::stoul(task.path().filename()));
    if (name == "rdmalloc-event") setpriority(PRIO_PROCESS, thread, 19);
  }
}

// One thread unmaps; the other takes the address as soon as the kernel allows, before the first one
// returns. Returns how often it found the registration.
uint64_t take_addresses(bool catches_up, int seconds, uint64_t enough) {
  std::atomic<char*> offered{nullptr};
  std::atomic<bool> unmapped{false};
  std::atomic<bool> done{false};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> stale{0};
  // False if another party, such as a sanitizer, was given this address.
  const auto take = [&unmapped](char* memory) {
    constexpr int kThere = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    for (;;) {
      const bool is_last_try = unmapped;
      if (os::system_call(SYS_mmap, os::word(memory), kLength, PROT_READ, kThere, -1, 0) ==
          os::word(memory)) {
        return true;
      }
      if (is_last_try) return false;
    }
  };
  std::thread taker([&] {
    while (!stop) {
      char* const memory = offered.exchange(nullptr);
      if (memory == nullptr) continue;
      if (take(memory)) {
        if (catches_up) changes.catch_up(address(memory), address(memory) + kLength);
        if (is_hit(memory, kLength)) ++stale;
        raw(SYS_munmap, memory, kLength);
      }
      done = true;
    }
  });
  make_reader_slow();
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    busy.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (stale < enough && std::chrono::steady_clock::now() < end) {
    char* const memory = map_pages();
    REQUIRE(sink.add(address(memory), kLength, *monitor()));
    unmapped = false;
    done = false;
    offered = memory;
    raw(SYS_munmap, memory, kLength);
    unmapped = true;
    while (!done) std::this_thread::yield();
    changes.wait_until_told();
  }
  stop = true;
  taker.join();
  for (std::thread& thread : busy) thread.join();
  return stale;
}

TEST_CASE("An address taken before its unmapping is reported has no old registration") {
  if (monitor() == nullptr) return;
  CHECK(take_addresses(true, 3, UINT64_MAX) == 0);
}

TEST_CASE("Control: without waiting for changes to be reported old registrations are found") {
  if (monitor() == nullptr) return;
  CHECK(take_addresses(false, 60, 1) > 0);
}

}  // namespace
}  // namespace rdmalloc
