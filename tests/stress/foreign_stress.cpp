// Threads get, put and change foreign memory, close and open its cache, and release idle
// registrations, all at the same time.
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/foreign_fixture.h"

namespace rdmalloc {
namespace {

using fake::Pages;
using fake::Registration;
using Fixture = fake::ForeignFixture;

constexpr size_t kGetters = 3;
constexpr size_t kShared = 32;  // in pages; each other page belongs to one getter
constexpr size_t kOwn = (Pages::kCount - kShared) / kGetters;
constexpr size_t kMostHeld = 4;

struct Stress {
  std::atomic<bool> done{false};
  std::atomic<bool> is_to_close{false};  // getters keep no references, but go on
  std::atomic<uint64_t> got{0}, refused{0}, changed{0}, closed{0}, passed_on{0};
  // Each counts a kind of broken promise.
  std::atomic<int> not_covered{0}, stale{0}, not_registered{0}, not_put{0}, wrong_status{0};
  Fixture f;

  // References that one thread got and another will put.
  std::mutex mutex;
  std::vector<rdm_mr> passed;

  int promises_broken() const {
    return not_covered + stale + not_registered + not_put + wrong_status;
  }
};

void put(Stress& s, const rdm_mr& mr) {
  // A reference keeps it registered.
  if (!s.f.is_registered(mr)) ++s.not_registered;
  if (s.f.put(mr) != RDM_OK) ++s.not_put;
}

bool is_allowed(int status) {
  return status == RDM_OUT_OF_BUDGET || status == RDM_INVALID || status == RDM_BUSY;
}

void get_one(Stress& s, size_t page, size_t pages, std::vector<rdm_mr>* held) {
  uint32_t versions[Pages::kCount];
  for (size_t i = 0; i < Pages::kCount; ++i) versions[i] = s.f.pages.version(i);
  rdm_mr mr{};
  const int status = s.f.get_pages(page, pages, &mr);
  if (status != RDM_OK) {
    ++s.refused;
    s.wrong_status += is_allowed(status) ? 0 : 1;
    return;
  }
  ++s.got;
  const Registration& one = Registration::of(mr);
  if (!one.is_registered) ++s.not_registered;
  if (!one.covers(Pages::number(page), Pages::number(page + pages))) ++s.not_covered;
  for (size_t i = 0; i < Pages::kCount; ++i) {
    const bool is_in = one.covers(Pages::number(i), Pages::number(i + 1));
    if (is_in && static_cast<int32_t>(one.seen[i] - versions[i]) < 0) ++s.stale;
  }
  held->push_back(mr);
}

// Passes a reference to another thread, or puts one that another thread got.
void exchange(Stress& s, std::vector<rdm_mr>* held) {
  rdm_mr mr{};
  {
    const std::lock_guard hold(s.mutex);
    if (!held->empty() && s.passed.size() < 2) {
      s.passed.push_back(held->back());
      held->pop_back();
      ++s.passed_on;
      return;
    }
    if (s.passed.empty()) return;
    mr = s.passed.back();
    s.passed.pop_back();
  }
  put(s, mr);
}

void get_and_put(Stress& s, size_t self) {
  std::mt19937 random(static_cast<unsigned>(self));
  std::vector<rdm_mr> held;
  while (!s.done) {
    const uint32_t what = random() % 64;
    if (what < 36 && held.size() < kMostHeld) {
      const bool is_own = random() % 2 == 0;
      const size_t first = is_own ? kShared + self * kOwn : 0;
      const size_t count = is_own ? kOwn : kShared;
      const size_t page = random() % count;
      get_one(s, first + page, 1 + random() % std::min<size_t>(count - page, 4), &held);
    } else if (what < 60 && !held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      put(s, held.back());
      held.pop_back();
    } else if (what < 63) {
      exchange(s, &held);
    } else {
      std::this_thread::yield();
    }
    if (!s.is_to_close) continue;
    for (const rdm_mr& mr : held) put(s, mr);
    held.clear();
    std::this_thread::yield();
  }
  for (const rdm_mr& mr : held) put(s, mr);
}

void change(Stress& s) {
  std::mt19937 random(100);
  while (!s.done) {
    const size_t page = random() % Pages::kCount;
    s.f.pages.change(page, 1 + random() % std::min<size_t>(Pages::kCount - page, 3));
    ++s.changed;
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void close_and_open(Stress& s) {
  std::mt19937 random(200);
  while (!s.done) {
    s.is_to_close = random() % 4 == 0;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    {
      // References in transit would keep the cache busy.
      const std::lock_guard hold(s.mutex);
      for (const rdm_mr& mr : s.passed) put(s, mr);
      s.passed.clear();
    }
    const int status = s.f.close();
    if (status == RDM_BUSY) continue;
    s.wrong_status += status == RDM_OK && s.f.device.count() == 0 ? 0 : 1;
    ++s.closed;
    s.f.settings.limits.leave_pinned = random() % 4 != 0;
    s.f.settings.limits.count = random() % 2 == 0 ? 0 : 6 + static_cast<uint32_t>(random() % 12);
    s.f.settings.limits.bytes = (20 + random() % 44) * Pages::kSize;
    s.f.settings.wait_ms = random() % 4 == 0 ? 1 : 0;
    s.f.open();
  }
}

void end_idle(Stress& s) {
  std::mt19937 random(300);
  while (!s.done) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (random() % 4 == 0) (void)s.f.cache->idle().give_up(Pages::kSize * (1 + random() % 8));
    s.f.cache->idle().deregister();
  }
}

void run(Stress& s, int ms) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kGetters; ++i) threads.emplace_back([&s, i] { get_and_put(s, i); });
  threads.emplace_back([&s] { change(s); });
  threads.emplace_back([&s] { close_and_open(s); });
  threads.emplace_back([&s] { end_idle(s); });
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  s.done = true;
  for (std::thread& thread : threads) thread.join();
  for (const rdm_mr& mr : s.passed) put(s, mr);
}

}  // namespace

TEST_CASE("a reference keeps memory registered and none is stale, whatever threads do") {
  Stress s;
  SECTION("with a device that may run in malloc") {}
  SECTION("with one that may not") { s.f.device.runs_in_malloc = false; }
  SECTION("with one that registers memory once only") {
    s.f.device.runs_in_malloc = false;
    s.f.device.refuses_overlaps = true;
  }
  run(s, 1500);
  INFO("got " << s.got << ", refused " << s.refused << ", changed " << s.changed << ", closed "
              << s.closed << ", passed on " << s.passed_on);
  CHECK(s.not_covered == 0);
  CHECK(s.stale == 0);
  CHECK(s.not_registered == 0);
  CHECK(s.not_put == 0);
  CHECK(s.wrong_status == 0);
  CHECK(s.f.device.violations() == std::vector<std::string>{});
  CHECK(s.f.cache->validate());
  // The run reached what it is meant to test.
  CHECK(s.got > 1000);
  CHECK(s.changed > 100);
  CHECK(s.closed > 10);
  CHECK(s.passed_on > 10);
  s.f.device.promised_count = SIZE_MAX;
  CHECK(s.f.close() == RDM_OK);
  CHECK(s.f.device.count() == 0);
  CHECK(!changes.counts().may_have(Pages::number(0), Pages::number(Pages::kCount)));
}

// The control: when the cache is not told of changes, the same run detects stale registrations.
TEST_CASE("a cache that is told of no change returns stale registrations") {
  Stress s;
  fake::set_changed_cache(nullptr);
  run(s, 500);
  CHECK(s.stale > 0);
  CHECK(s.not_registered == 0);
}

}  // namespace rdmalloc
