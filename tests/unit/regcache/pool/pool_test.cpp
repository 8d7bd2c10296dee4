// Pools over a fake device and a heap over fake system calls.
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/pool_buffers.h"

namespace rdmalloc {
namespace {

using fake::get_all;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::PoolFixture;
using fake::pools_are_clean;
using fake::put_all;
using fake::require_apart;

TEST_CASE(
    "buffers of any size and alignment lie apart, aligned, each with the key that covers it") {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{100}, size_t{4096}, size_t{65537}}) {
    for (const size_t alignment : {size_t{1}, size_t{64}, kPage, 128 * kKiB}) {
      INFO(bytes << " bytes aligned to " << alignment);
      PoolFixture f;
      f.boot();
      f.open_domain();
      f.settings.buffer_bytes = bytes;
      f.settings.alignment = alignment;
      f.settings.reserve = 40;
      f.settings.most = 100;
      Pool* pool = f.create();
      REQUIRE(f.counts(pool).held >= 40);
      const std::vector<rdm_buffer> all = get_all(f, pool);
      REQUIRE(all.size() == 100);
      REQUIRE(f.says("may have no more"));
      require_apart(all);
      for (const rdm_buffer& buffer : all) memset(buffer.address, 0x5A, buffer.length);
      REQUIRE(pool->validate());
      put_all(pool, all);
      REQUIRE(pool->validate());
      REQUIRE(f.counts(pool).out == 0);
      REQUIRE(pool->close() == RDM_OK);
      REQUIRE(f.memory.blocks() == 0);
      REQUIRE(f.heap.unsound() == "");
    }
  }
}

TEST_CASE("the one put back last comes first") {
  PoolFixture f;
  f.boot();
  Pool* pool = f.create();
  const rdm_buffer first = f.get(pool);
  const rdm_buffer second = f.get(pool);
  REQUIRE(Pool::put(pool, first.address) == RDM_OK);
  REQUIRE(Pool::put(pool, second.address) == RDM_OK);
  REQUIRE(f.get(pool).address == second.address);
  REQUIRE(f.get(pool).address == first.address);
}

TEST_CASE("a pool in a domain of named memory takes exposed memory, and has its keys") {
  PoolFixture f;
  f.boot();
  f.open_domain(RDM_DOMAIN_NAMED_ONLY);
  Pool* pool = f.create();
  const rdm_buffer buffer = f.get(pool);
  REQUIRE(f.memory.region_of(buffer.address)->exposed);
  rdm_mr mr{};
  REQUIRE(Pool::key(pool, buffer.address, &mr) == RDM_OK);
  REQUIRE(mr.lkey == buffer.lkey);
  for (const fake::Backend::Registered& one : f.backend.registered()) REQUIRE(one.exposed);
}

TEST_CASE("without a domain buffers have no key, and rdm_pool_key says so") {
  PoolFixture f;
  f.boot();
  Pool* pool = f.create();
  const rdm_buffer buffer = f.get(pool);
  REQUIRE((buffer.lkey == 0 && buffer.rkey == 0 && buffer.handle == nullptr));
  rdm_mr mr{};
  REQUIRE(Pool::key(pool, buffer.address, &mr) == RDM_NOT_REGISTERED);
  REQUIRE(f.says("without a domain"));
}

TEST_CASE("the key is found for any byte of a buffer, and for none between or beyond") {
  PoolFixture f;
  f.boot();
  f.open_domain();
  f.settings.buffer_bytes = 100;
  Pool* pool = f.create();
  const rdm_buffer buffer = f.get(pool);
  auto* const start = static_cast<char*>(buffer.address);
  rdm_mr mr{};
  for (const size_t at : {0, 1, 99, 128, 227}) {
    REQUIRE(Pool::key(pool, start + at, &mr) == RDM_OK);
    REQUIRE(f.backend.covers(mr, start, 100));
  }
  REQUIRE(Pool::key(pool, start + 100, &mr) == RDM_INVALID);
  REQUIRE(Pool::key(pool, start + 127, &mr) == RDM_INVALID);
  REQUIRE(Pool::key(pool, &f, &mr) == RDM_INVALID);
  REQUIRE(Pool::key(pool, nullptr, &mr) == RDM_INVALID);
  REQUIRE(Pool::key(nullptr, start, &mr) == RDM_INVALID);
  REQUIRE(Pool::key(pool, start, nullptr) == RDM_INVALID);
}

TEST_CASE("what is not out of this pool is not taken back, and changes nothing") {
  PoolFixture f;
  f.boot();
  Pool* pool = f.create();
  Pool* other = f.create();
  const rdm_buffer buffer = f.get(pool);
  const rdm_buffer others = f.get(other);
  auto* const start = static_cast<char*>(buffer.address);
  int local = 0;
  const auto refused = [&](Pool* at, void* address, const char* part) {
    INFO("to be refused: " << part << ", " << address << " after " << start);
    REQUIRE(Pool::put(at, address) == RDM_INVALID);
    INFO(last_error());
    REQUIRE(f.says(part));
    REQUIRE(pool->validate());
    REQUIRE(f.counts(pool).out == 1);
  };
  refused(nullptr, start, "null");
  refused(pool, nullptr, "not of this pool");
  refused(pool, &local, "not of this pool");
  refused(pool, others.address, "not of this pool");
  const uintptr_t end = f.heap->window().base() + f.heap->window().size();
  refused(pool, reinterpret_cast<void*>(end - 1), "not of this pool");
  refused(pool, reinterpret_cast<void*>(end), "not of this pool");
  refused(pool, start + 1, "no buffer starts");
  refused(pool, start + 4096 - 1, "no buffer starts");
  refused(pool, start + 4096, "put back already");
  REQUIRE(Pool::put(pool, start) == RDM_OK);
  REQUIRE(Pool::put(pool, start) == RDM_INVALID);
  REQUIRE(f.says("put back already"));
  REQUIRE(Pool::put(other, others.address) == RDM_OK);
  REQUIRE(other->close() == RDM_OK);
  REQUIRE(Pool::put(other, others.address) == RDM_INVALID);
  REQUIRE(f.says("closed"));
  rdm_buffer none{};
  REQUIRE(Pool::get(other, &none) == RDM_INVALID);
  REQUIRE(Pool::get(nullptr, &none) == RDM_INVALID);
  REQUIRE(Pool::get(pool, nullptr) == RDM_INVALID);
}

TEST_CASE("a pool with buffers out is not closed, and tells how many") {
  PoolFixture f;
  f.boot();
  Pool* pool = f.create();
  const rdm_buffer first = f.get(pool);
  const rdm_buffer second = f.get(pool);
  REQUIRE(pool->close() == RDM_BUSY);
  REQUIRE(f.says("2 buffers of the pool are out"));
  REQUIRE(Pool::put(pool, first.address) == RDM_OK);
  REQUIRE(pool->close() == RDM_BUSY);
  REQUIRE(f.says("1 buffer of the pool is out"));
  REQUIRE(f.get(pool).address == first.address);
  REQUIRE(Pool::put(pool, first.address) == RDM_OK);
  REQUIRE(Pool::put(pool, second.address) == RDM_OK);
  REQUIRE(pool->close() == RDM_OK);
  REQUIRE(pools_are_clean(f));
}

TEST_CASE("where a device cuts regions into pieces no buffer reaches across a cut") {
  PoolFixture f;
  f.backend.limits.max_length = 10 * kPage;
  f.boot();
  f.open_domain();
  f.settings.buffer_bytes = 3 * kPage;
  f.settings.alignment = kPage;
  f.settings.reserve = 64;
  f.settings.most = 64;
  Pool* pool = f.create();
  REQUIRE(f.counts(pool).held == 64);
  REQUIRE(f.counts(pool).grown > 1);
  const std::vector<rdm_buffer> all = get_all(f, pool);
  REQUIRE(all.size() == 64);
  require_apart(all);
  std::set<uint32_t> keys;
  for (const rdm_buffer& buffer : all) keys.insert(buffer.lkey);
  REQUIRE(keys.size() > 10);
  REQUIRE(pool->validate());
  put_all(pool, all);
  REQUIRE(pool->validate());
  REQUIRE(pool->close() == RDM_OK);
}

TEST_CASE("buffers longer than any memory region of the device are refused at the start") {
  PoolFixture f;
  f.backend.limits.max_length = 4 * kPage;
  f.boot();
  f.open_domain();
  f.settings.buffer_bytes = 5 * kPage;
  f.settings.reserve = 1;
  Pool* pool = nullptr;
  REQUIRE(f.try_to_create(&pool) == RDM_UNSUPPORTED);
  INFO(f.why);
  REQUIRE(f.why.find("too long") != std::string::npos);
  REQUIRE(pools_are_clean(f));
}

TEST_CASE("a domain whose keys a pool hands out is not closed, and tells so") {
  PoolFixture f;
  f.boot();
  f.open_domain();
  Pool* pool = f.create();
  REQUIRE(f.registry->close(f.domain) == RDM_BUSY);
  REQUIRE(f.says("pools that are open (1)"));
  const rdm_buffer buffer = f.get(pool);
  REQUIRE(Pool::put(pool, buffer.address) == RDM_OK);
  // A refused pool holds nothing.
  f.backend.fail_from = f.backend.calls() + 1;
  f.settings.reserve = 100000;
  Pool* refused = nullptr;
  REQUIRE(f.try_to_create(&refused) != RDM_OK);
  REQUIRE(pool->close() == RDM_OK);
  REQUIRE(f.registry->close(f.domain) == RDM_OK);
}

TEST_CASE("a pool in a domain that is closed is refused, without a reserve too") {
  PoolFixture f;
  f.boot();
  f.open_domain();
  REQUIRE(f.registry->close(f.domain) == RDM_OK);
  Pool* pool = nullptr;
  REQUIRE(f.try_to_create(&pool) == RDM_INVALID);
  REQUIRE(f.why.find("the domain is closed") == 0);
  REQUIRE(pool == nullptr);
  REQUIRE(pools_are_clean(f));
}

TEST_CASE("a reserve that cannot be registered is refused, and nothing of it stays") {
  PoolFixture f;
  f.boot();
  f.open_domain();
  f.backend.fail_from = f.backend.calls() + 1;
  f.settings.reserve = 1000;
  Pool* pool = nullptr;
  REQUIRE(f.try_to_create(&pool) == RDM_NOT_REGISTERED);
  INFO(f.why);
  REQUIRE(f.why.find("needs 4096000 bytes registered for 1000 buffers, and got 0") == 0);
  REQUIRE(f.why.find("could not be registered: ") != std::string::npos);
  REQUIRE(f.why.find("this process holds") != std::string::npos);
  REQUIRE(pool == nullptr);
  REQUIRE(pools_are_clean(f));
}

TEST_CASE("memory beyond the budget is no reserve") {
  PoolFixture f({"CAP=4M", "GATHER=off"});
  f.boot();
  f.open_domain();
  f.settings.buffer_bytes = kMiB;
  f.settings.reserve = 32;
  Pool* pool = nullptr;
  REQUIRE(f.try_to_create(&pool) == RDM_OUT_OF_BUDGET);
  INFO(f.why);
  REQUIRE(f.why.find("no more than 4 MiB may be pinned") != std::string::npos);
  // Refused before anything was allocated.
  REQUIRE(f.backend.calls() == 0);
  REQUIRE(pools_are_clean(f));
  // There would be room without what others hold.
  std::vector<void*> others;
  for (int i = 0; i < 3; ++i) others.push_back(f.heap.take(kMiB));
  f.settings.reserve = 4;
  REQUIRE(f.try_to_create(&pool) == RDM_OUT_OF_BUDGET);
  INFO(f.why);
  REQUIRE(f.why.find("beyond the budget for pinned memory, and so in no domain") !=
          std::string::npos);
  REQUIRE(f.why.find("needs 4194304 bytes registered for 4 buffers, and got ") == 0);
  for (void* other : others) REQUIRE(f.heap.give(other, kMiB));
  REQUIRE(pools_are_clean(f));
  // In parts, if it does not fit in one piece.
  f.settings.buffer_bytes = 64 * kKiB;
  f.settings.reserve = 40;
  REQUIRE(f.try_to_create(&pool) == RDM_OK);
  REQUIRE(f.counts(pool).grown > 1);
  REQUIRE(pool->close() == RDM_OK);
  f.settings.buffer_bytes = kMiB;
  f.settings.reserve = 1;
  REQUIRE(f.try_to_create(&pool) == RDM_OK);
  std::vector<rdm_buffer> some = get_all(f, pool);
  REQUIRE_FALSE(some.empty());
  REQUIRE(f.says("no more could be had"));
  REQUIRE(f.counts(pool).failed == 1);
  put_all(pool, some);
  REQUIRE(pool->close() == RDM_OK);
}

TEST_CASE("whichever allocation fails, creating fails as a whole or not at all") {
  for (size_t k = 1; k <= 12; ++k) {
    PoolFixture f;
    f.backend.limits.max_length = 10 * kPage;
    f.boot();
    f.open_domain();
    f.settings.buffer_bytes = 3 * kPage;
    f.settings.reserve = 60;
    f.settings.most = 60;
    f.memory.fail(k);
    Pool* pool = nullptr;
    const int status = f.try_to_create(&pool);
    f.memory.fail(0);
    INFO("allocation " << k << ": " << f.why);
    REQUIRE((status == RDM_OK) == (pool != nullptr));
    if (status != RDM_OK) REQUIRE_FALSE(f.why.empty());
    if (status == RDM_OK) REQUIRE(pool->close() == RDM_OK);
    REQUIRE(pools_are_clean(f));
  }
}

TEST_CASE("when growing fails, what is there is handed out, and later more is tried") {
  PoolFixture f;
  f.boot();
  f.settings.reserve = 16;
  f.settings.grow_by = 16;
  Pool* pool = f.create();
  std::vector<rdm_buffer> held;
  for (int i = 0; i < 16; ++i) held.push_back(f.get(pool));
  f.memory.fail_all(true);
  rdm_buffer none{};
  REQUIRE(Pool::get(pool, &none) == RDM_OUT_OF_BUDGET);
  REQUIRE(none.address == nullptr);
  REQUIRE(f.says("all 16 buffers are out, and no more could be had: no memory"));
  f.memory.fail_all(false);
  // Not retried at once, though it would succeed.
  REQUIRE(Pool::get(pool, &none) == RDM_OUT_OF_BUDGET);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  held.push_back(f.get(pool));
  REQUIRE(f.counts(pool).held == 32);
  put_all(pool, held);
  REQUIRE(pool->close() == RDM_OK);
}

TEST_CASE("a million gets and puts change nothing of what is held") {
  PoolFixture f;
  f.boot();
  f.open_domain();
  f.settings.reserve = 64;
  Pool* pool = f.create();
  std::mt19937 random(1);
  std::vector<rdm_buffer> held;
  const rdm_pool_counts before = f.counts(pool);
  const uint64_t calls = f.backend.calls();
  for (int i = 0; i < 1'000'000; ++i) {
    if (held.size() < before.held && (held.empty() || random() % 2 == 0)) {
      rdm_buffer buffer{};
      if (Pool::get(pool, &buffer) != RDM_OK) FAIL(last_error());
      held.push_back(buffer);
    } else {
      const size_t which = random() % held.size();
      if (Pool::put(pool, held[which].address) != RDM_OK) FAIL(last_error());
      held[which] = held.back();
      held.pop_back();
    }
  }
  REQUIRE(pool->validate());
  REQUIRE(f.counts(pool).held == before.held);
  REQUIRE(f.counts(pool).grown == before.grown);
  REQUIRE(f.counts(pool).out == held.size());
  REQUIRE(f.backend.calls() == calls);
  put_all(pool, held);
  REQUIRE(pool->close() == RDM_OK);
}

TEST_CASE("more pools than there is room for are refused, and closed ones make room") {
  PoolFixture f;
  f.boot();
  f.settings.reserve = 1;
  f.settings.most = 1;
  std::vector<Pool*> all;
  Pool* pool = nullptr;
  while (f.try_to_create(&pool) == RDM_OK) all.push_back(pool);
  REQUIRE(all.size() == PoolList::kMost);
  REQUIRE(f.why.find("too many pools") != std::string::npos);
  for (Pool* one : all) REQUIRE(Pool::put(one, f.get(one).address) == RDM_OK);
  for (Pool* one : all) REQUIRE(one->close() == RDM_OK);
  REQUIRE(pools_are_clean(f));
  for (size_t i = 0; i < 2 * PoolList::kMost; ++i) {
    Pool* one = f.create();
    REQUIRE(Pool::put(one, f.get(one).address) == RDM_OK);
    REQUIRE(one->close() == RDM_OK);
  }
  REQUIRE(pools_are_clean(f));
}

TEST_CASE("a reserve that no machine has is refused at once, without a domain too") {
  PoolFixture f({"MEMORY_CAP=1G"});
  f.boot();
  f.settings.buffer_bytes = size_t{1} << 30;
  f.settings.reserve = size_t{1} << 30;
  Pool* pool = nullptr;
  REQUIRE(f.try_to_create(&pool) == RDM_OUT_OF_BUDGET);
  INFO(f.why);
  REQUIRE(f.why.find("no more than 1 GiB may be held") != std::string::npos);
  REQUIRE(pools_are_clean(f));
}

TEST_CASE("buffers as long as can be are had") {
  PoolFixture f;
  f.heap.set("WINDOW=64G");
  f.boot();
  f.open_domain();
  f.settings.buffer_bytes = size_t{1} << 30;
  f.settings.alignment = 2 * kMiB;
  f.settings.reserve = 1;
  f.settings.most = 2;
  Pool* pool = f.create();
  const std::vector<rdm_buffer> all = get_all(f, pool);
  REQUIRE(all.size() == 2);
  require_apart(all);
  rdm_mr mr{};
  REQUIRE(Pool::key(pool, static_cast<char*>(all[1].address) + f.settings.buffer_bytes - 1, &mr) ==
          RDM_OK);
  put_all(pool, all);
  REQUIRE(pool->validate());
  REQUIRE(pool->close() == RDM_OK);
  REQUIRE(pools_are_clean(f));
}

TEST_CASE("exposed buffers come from regions that hold nothing else") {
  PoolFixture f;
  f.boot();
  f.settings.flags = RDM_EXPOSED;
  f.settings.reserve = 16;
  Pool* pool = f.create();
  const rdm_buffer buffer = f.get(pool);
  REQUIRE(f.heap->regions().find(buffer.address)->exposed);
  REQUIRE(Pool::put(pool, buffer.address) == RDM_OK);
  REQUIRE(pool->close() == RDM_OK);
  REQUIRE(pools_are_clean(f));
}

}  // namespace
}  // namespace rdmalloc
