// Threads get, put, pass buffers to each other, end and are replaced; the pool is at its limit, so
// that they depend on each other's stocks.
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/pool_fixture.h"

namespace rdmalloc {
namespace {

using fake::PoolFixture;

constexpr size_t kThreads = 4;
constexpr size_t kEach = 24;  // the most buffers that a thread holds
constexpr int kRounds = 20000;
constexpr int kGenerations = 4;

// The first word of a buffer names its holder. It is deliberately not atomic: the pool promises
// that nobody else writes to it, and the thread sanitizer checks that.
uint64_t& owner_of(const rdm_buffer& buffer) { return *static_cast<uint64_t*>(buffer.address); }

// Buffers in transit between threads.
class Exchange {
 public:
  // False if it is full.
  bool give(const rdm_buffer& buffer) {
    const std::lock_guard hold(mutex_);
    if (buffers_.size() == kMost) return false;
    buffers_.push_back(buffer);
    return true;
  }
  bool take(rdm_buffer* out) {
    const std::lock_guard hold(mutex_);
    if (buffers_.empty()) return false;
    *out = buffers_.back();
    buffers_.pop_back();
    return true;
  }
  static constexpr size_t kMost = 32;

 private:
  std::mutex mutex_;
  std::vector<rdm_buffer> buffers_;
};

struct Work {
  Pool* pool;
  Exchange exchange;
  std::atomic<int> wrong{0};
  std::atomic<uint64_t> refused{0};
};

void put(Work& work, rdm_buffer buffer, uint64_t self) {
  if (owner_of(buffer) != self) ++work.wrong;
  owner_of(buffer) = 0;
  if (Pool::put(work.pool, buffer.address) != RDM_OK) ++work.wrong;
}

void churn(Work& work, uint64_t self, int rounds) {
  std::mt19937 random(static_cast<unsigned>(self));
  std::vector<rdm_buffer> held;
  for (int round = 0; round < rounds; ++round) {
    rdm_buffer buffer{};
    const unsigned what = random() % 8;
    if (what < 4 && held.size() < kEach) {
      if (Pool::get(work.pool, &buffer) != RDM_OK) {
        ++work.refused;
        continue;
      }
      if (owner_of(buffer) != 0) ++work.wrong;
      owner_of(buffer) = self;
      held.push_back(buffer);
    } else if (what == 4 && held.size() < kEach && work.exchange.take(&buffer)) {
      owner_of(buffer) = self;
      held.push_back(buffer);
    } else if (what == 5 && !held.empty() && work.exchange.give(held.back())) {
      held.pop_back();
    } else if (!held.empty()) {
      const size_t which = random() % held.size();
      put(work, held[which], self);
      held[which] = held.back();
      held.pop_back();
    }
  }
  for (const rdm_buffer& buffer : held) put(work, buffer, self);
}

}  // namespace

TEST_CASE("no buffer is handed out twice or lost among threads that live on each other's stocks") {
  PoolFixture f;
  fake::process_barrier.is_there = GENERATE(true, false);
  f.boot();
  f.open_domain();
  f.settings.buffer_bytes = 512;
  f.settings.most = kThreads * kEach + Exchange::kMost;
  f.settings.reserve = f.settings.most;
  Work work{f.create(), {}, {}, {}};
  for (int generation = 0; generation < kGenerations; ++generation) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      const uint64_t self = static_cast<uint64_t>(generation) * kThreads + i + 1;
      threads.emplace_back([&work, self] { churn(work, self, kRounds); });
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(work.pool->validate());
  }
  CHECK(work.wrong == 0);
  // The pool has as many buffers as all threads may hold together, so no request may fail.
  CHECK(work.refused == 0);
  rdm_buffer left{};
  while (work.exchange.take(&left)) REQUIRE(Pool::put(work.pool, left.address) == RDM_OK);
  CHECK(f.counts(work.pool).out == 0);
  CHECK(f.counts(work.pool).held == f.settings.most);
  CHECK(work.pool->close() == RDM_OK);
  CHECK(f.memory.blocks() == 0);
}

TEST_CASE("when two threads put the same buffer at once, one is told that it is not out") {
  PoolFixture f;
  f.boot();
  f.settings.buffer_bytes = 64;
  Pool* pool = f.create();
  constexpr size_t kBuffers = 20000;
  std::vector<rdm_buffer> all(kBuffers);
  for (rdm_buffer& buffer : all) buffer = f.get(pool);
  std::atomic<size_t> taken{0};
  std::atomic<int> ready{0};
  const auto put_all = [&] {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    for (const rdm_buffer& buffer : all) taken += Pool::put(pool, buffer.address) == RDM_OK;
  };
  std::thread other(put_all);
  put_all();
  other.join();
  CHECK(taken == kBuffers);
  CHECK(pool->validate());
  CHECK(f.counts(pool).out == 0);
  CHECK(pool->close() == RDM_OK);
}

TEST_CASE("a pool grows among threads that all find it empty, and never beyond its limit") {
  PoolFixture f;
  f.boot();
  f.open_domain();
  f.settings.buffer_bytes = 512;
  f.settings.grow_by = 7;
  f.settings.most = 1000;
  Pool* pool = f.create();
  std::atomic<size_t> got{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      rdm_buffer buffer{};
      while (Pool::get(pool, &buffer) == RDM_OK) ++got;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(got == 1000);
  CHECK(f.counts(pool).held == 1000);
  CHECK(pool->validate());
}

}  // namespace rdmalloc
