// Opened handles over fake peers: the C functions of remote.h, as callers use them.

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "allocator/last_error.h"
#include "include/rdmalloc/backend.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/fake_peers.h"

namespace rdmalloc {
namespace {

constexpr size_t kPage = 4096;

// Memory of a peer, with its exported handle.
struct Memory {
  uint64_t peer = 0;
  uint64_t base = 0;
  size_t length = 0;
  std::string handle;

  rdm_remote_memory described() const { return {peer, base, length, handle.data(), handle.size()}; }
};

Memory page_of(uint64_t peer, uint64_t page, size_t pages = 1, const char* handle = "first") {
  return {peer, page * kPage, pages * kPage, handle};
}

// One cache; its limits are checked when it is destroyed.
struct Fixture {
  fake::Peers peers;
  rdm_remote_options options{};
  rdm_remote_cache* cache = nullptr;

  Fixture() { options.size = sizeof options; }

  void open() {
    const rdm_remote_operations operations = peers.operations();
    REQUIRE(rdm_remote_cache_open(&operations, &peers, &options, &cache) == RDM_OK);
  }
  int get(const Memory& memory, rdm_remote_mapping* out) const {
    const rdm_remote_memory described = memory.described();
    return rdm_remote_get(cache, &described, out);
  }
  rdm_remote_mapping got(const Memory& memory) const {
    rdm_remote_mapping mapping{};
    INFO(last_error());
    REQUIRE(get(memory, &mapping) == RDM_OK);
    REQUIRE(peers.is_open(mapping));
    REQUIRE(mapping.length >= memory.length);
    return mapping;
  }
  void put(const rdm_remote_mapping& mapping) const {
    REQUIRE(rdm_remote_put(cache, &mapping) == RDM_OK);
  }
  void use(const Memory& memory) const { put(got(memory)); }
  rdm_remote_counts counts() const {
    rdm_remote_counts counts{};
    REQUIRE(rdm_remote_counts_get(cache, &counts) == RDM_OK);
    return counts;
  }
  bool has_open(const Memory& memory) const {
    for (const auto& [address, one] : peers.open()) {
      if (one.peer == memory.peer && one.base == memory.base && one.length == memory.length &&
          one.handle == memory.handle)
        return true;
    }
    return false;
  }
  void close() {
    REQUIRE(rdm_remote_cache_close(cache) == RDM_OK);
    REQUIRE(peers.open().empty());
    REQUIRE(peers.closed() == 1);
    REQUIRE(peers.violations().empty());
  }
};

bool says(const char* part) { return strstr(last_error(), part) != nullptr; }

// -- the four ways ------------------------------------------------------------------------------

TEST_CASE("left open without a limit, a handle is opened once and stays open") {
  Fixture f;
  f.open();
  for (int round = 0; round < 3; ++round) {
    for (uint64_t page = 0; page < 100; ++page) f.use(page_of(page % 7, page));
  }
  REQUIRE(f.peers.opened() == 100);
  REQUIRE(f.peers.open().size() == 100);
  const rdm_remote_counts counts = f.counts();
  REQUIRE(counts.misses == 100);
  REQUIRE(counts.hits == 200);
  REQUIRE(counts.evictions == 0);
  REQUIRE(counts.open == 100);
  REQUIRE(counts.open_bytes == 100 * kPage);
  f.close();
}

TEST_CASE("left open with a limit, the handle used least recently is closed, never one in use") {
  Fixture f;
  const bool by_bytes = GENERATE(false, true);
  if (by_bytes) f.options.bytes = 3 * kPage;
  if (!by_bytes) f.options.count = 3;
  f.open();
  const rdm_remote_mapping held = f.got(page_of(1, 0));
  f.use(page_of(1, 1));
  f.use(page_of(1, 2));
  f.use(page_of(1, 3));  // evicts 1, since 0 is in use
  REQUIRE_FALSE(f.has_open(page_of(1, 1)));
  f.use(page_of(1, 2));
  f.use(page_of(1, 4));  // evicts 3
  REQUIRE(f.has_open(page_of(1, 0)));
  REQUIRE(f.has_open(page_of(1, 2)));
  REQUIRE_FALSE(f.has_open(page_of(1, 3)));
  REQUIRE(f.counts().evictions == 2);
  REQUIRE(f.counts().open == 3);
  REQUIRE(f.peers.most_open() == 3);
  f.put(held);
  f.close();
}

TEST_CASE("not left open, without a limit, a handle is open while somebody uses it, only") {
  Fixture f;
  f.options.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED;
  f.open();
  for (int round = 0; round < 3; ++round) {
    const rdm_remote_mapping first = f.got(page_of(1, 0));
    const rdm_remote_mapping second = f.got(page_of(1, 0));
    REQUIRE(first.address == second.address);
    f.put(first);
    REQUIRE(f.peers.is_open(second));
    f.put(second);
    REQUIRE(f.peers.open().empty());
  }
  REQUIRE(f.peers.opened() == 3);
  REQUIRE(f.counts().hits == 3);
  f.close();
}

TEST_CASE("not left open, with a limit, what is beyond it is refused") {
  Fixture f;
  f.options.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED;
  f.options.bytes = 2 * kPage;
  f.open();
  const rdm_remote_mapping held = f.got(page_of(1, 0, 2));
  rdm_remote_mapping none{};
  REQUIRE(f.get(page_of(1, 5), &none) == RDM_OUT_OF_BUDGET);
  REQUIRE(says("in use"));
  REQUIRE(none.address == nullptr);
  REQUIRE(f.got(page_of(1, 0, 2)).address == held.address);
  f.put(held);
  REQUIRE(f.get(page_of(1, 5), &none) == RDM_OUT_OF_BUDGET);
  f.put(held);
  f.use(page_of(1, 5));
  REQUIRE(f.get(page_of(1, 5, 3), &none) == RDM_OUT_OF_BUDGET);
  REQUIRE(says("longer than all"));
  f.close();
}

TEST_CASE("beyond the limit a get waits for a put, when it may") {
  Fixture f;
  f.options.flags = GENERATE(0u, unsigned{RDM_DOMAIN_LEAVE_NOTHING_PINNED});
  f.options.count = 1;
  f.options.wait_ms = 60'000;
  f.open();
  const rdm_remote_mapping held = f.got(page_of(1, 0));
  std::atomic<bool> is_put{false};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_put = true;
    (void)rdm_remote_put(f.cache, &held);
  });
  const rdm_remote_mapping second = f.got(page_of(1, 1));
  REQUIRE(is_put);
  other.join();
  f.put(second);
  f.close();
}

// -- replacing ----------------------------------------------------------------------------------

TEST_CASE("the same base with a larger size replaces what is idle") {
  Fixture f;
  f.peers.opens_once = GENERATE(false, true);
  f.open();
  f.use(page_of(1, 8, 1, "small"));
  f.use(page_of(2, 8, 1, "of another peer"));
  const rdm_remote_mapping large = f.got(page_of(1, 8, 2, "large"));
  REQUIRE(large.length == 2 * kPage);
  REQUIRE_FALSE(f.has_open(page_of(1, 8, 1, "small")));
  REQUIRE(f.has_open(page_of(2, 8, 1, "of another peer")));
  REQUIRE(f.counts().evictions == 0);
  f.put(large);
  f.close();
}

TEST_CASE("a replaced handle that is in use is closed with its last user") {
  Fixture f;
  f.open();
  const rdm_remote_mapping old = f.got(page_of(1, 8, 1, "small"));
  const rdm_remote_mapping large = f.got(page_of(1, 7, 4, "large"));
  REQUIRE(large.address != old.address);
  REQUIRE(f.peers.is_open(old));
  // Also when it is requested again: the peer cannot have both.
  REQUIRE(f.got(page_of(1, 7, 4, "large")).address == large.address);
  f.put(large);
  f.put(old);
  REQUIRE_FALSE(f.peers.is_open(old));
  REQUIRE(f.peers.is_open(large));
  f.put(large);
  f.close();
}

TEST_CASE("a replaced handle in use that is in the way of the new one is waited for, or said") {
  Fixture f;
  f.peers.opens_once = true;
  f.options.wait_ms = GENERATE(0u, 60'000u);
  f.open();
  const rdm_remote_mapping old = f.got(page_of(1, 8, 1, "small"));
  if (f.options.wait_ms == 0) {
    rdm_remote_mapping none{};
    REQUIRE(f.get(page_of(1, 8, 2, "large"), &none) == RDM_BUSY);
    REQUIRE(says("in use"));
    f.put(old);
    f.use(page_of(1, 8, 2, "large"));
  } else {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      (void)rdm_remote_put(f.cache, &old);
    });
    f.use(page_of(1, 8, 2, "large"));
    other.join();
  }
  REQUIRE_FALSE(f.peers.is_open(old));
  f.close();
}

TEST_CASE("another handle for the same memory is opened anew, and part of what is open is a hit") {
  Fixture f;
  f.open();
  const rdm_remote_mapping whole = f.got(page_of(1, 8, 4));
  const rdm_remote_mapping part = f.got(page_of(1, 8, 2));
  REQUIRE(part.address == whole.address);
  REQUIRE(part.length == whole.length);
  f.put(whole);
  f.put(part);
  f.use(page_of(1, 8, 4, "second"));
  REQUIRE(f.peers.opened() == 2);
  REQUIRE(f.peers.open().size() == 1);
  // The same bytes with a smaller length are another handle.
  f.use(page_of(1, 8, 4, "secon"));
  REQUIRE(f.peers.opened() == 3);
  f.close();
}

// -- forgetting ---------------------------------------------------------------------------------

TEST_CASE("what a peer freed is closed at once, or with its last user") {
  Fixture f;
  f.open();
  f.use(page_of(1, 0));
  f.use(page_of(1, 10, 4));
  f.use(page_of(2, 0));
  const rdm_remote_mapping held = f.got(page_of(1, 20));
  rdm_remote_forget(f.cache, 1, 12 * kPage, kPage);
  REQUIRE_FALSE(f.has_open(page_of(1, 10, 4)));
  REQUIRE(f.peers.open().size() == 3);
  rdm_remote_forget(f.cache, 1, 0, SIZE_MAX);
  REQUIRE(f.has_open(page_of(2, 0)));
  REQUIRE(f.peers.is_open(held));
  REQUIRE(f.peers.open().size() == 2);
  const rdm_remote_mapping anew = f.got(page_of(1, 20));
  REQUIRE(anew.address != held.address);
  f.put(held);
  REQUIRE_FALSE(f.peers.is_open(held));
  REQUIRE(f.peers.is_open(anew));
  f.put(anew);
  f.close();
}

// Blocks opening threads until told to go on.
struct Gate {
  std::atomic<int> inside{0};
  std::atomic<bool> is_open{false};
  static void pass(void* self) {
    auto* const gate = static_cast<Gate*>(self);
    ++gate->inside;
    while (!gate->is_open) std::this_thread::yield();
  }
  void guard(fake::Peers& peers) {
    peers.on_open = pass;
    peers.on_open_context = this;
  }
  void wait_for_one() const {
    while (inside == 0) std::this_thread::yield();
  }
};

TEST_CASE("what a peer freed while it was being opened is its user's alone") {
  Fixture f;
  Gate gate;
  gate.guard(f.peers);
  f.open();
  rdm_remote_mapping mapping{};
  int status = RDM_SYSTEM;
  std::thread opener([&] { status = f.get(page_of(1, 0), &mapping); });
  gate.wait_for_one();
  rdm_remote_forget(f.cache, 1, 0, SIZE_MAX);
  gate.is_open = true;
  opener.join();
  REQUIRE(status == RDM_OK);
  const rdm_remote_mapping anew = f.got(page_of(1, 0));
  REQUIRE(anew.address != mapping.address);
  f.put(mapping);
  REQUIRE_FALSE(f.peers.is_open(mapping));
  f.put(anew);
  f.close();
}

// -- threads ------------------------------------------------------------------------------------

TEST_CASE("threads that open the same handle at the same time open it once") {
  Fixture f;
  f.options.flags = GENERATE(0u, unsigned{RDM_DOMAIN_LEAVE_NOTHING_PINNED});
  Gate gate;
  gate.guard(f.peers);
  f.open();
  constexpr int kThreads = 3;
  rdm_remote_mapping mappings[kThreads] = {};
  int statuses[kThreads] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { statuses[i] = f.get(page_of(1, 0), &mappings[i]); });
  }
  gate.wait_for_one();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.is_open = true;
  for (std::thread& thread : threads) thread.join();
  REQUIRE(f.peers.opened() == 1);
  REQUIRE(gate.inside == 1);
  for (int i = 0; i < kThreads; ++i) {
    REQUIRE(statuses[i] == RDM_OK);
    REQUIRE(mappings[i].address == mappings[0].address);
    f.put(mappings[i]);
  }
  f.close();
}

TEST_CASE("other handles are opened while one is being opened") {
  Fixture f;
  Gate gate;
  gate.guard(f.peers);
  f.open();
  rdm_remote_mapping mappings[2] = {};
  int statuses[2] = {};
  std::thread first([&] { statuses[0] = f.get(page_of(1, 0), &mappings[0]); });
  gate.wait_for_one();
  std::thread second([&] { statuses[1] = f.get(page_of(1, 1), &mappings[1]); });
  while (gate.inside != 2) std::this_thread::yield();
  gate.is_open = true;
  first.join();
  second.join();
  for (int i = 0; i < 2; ++i) {
    REQUIRE(statuses[i] == RDM_OK);
    f.put(mappings[i]);
  }
  REQUIRE(f.peers.opened() == 2);
  f.close();
}

struct Random {
  uint64_t state;
  uint64_t below(uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  }
};

TEST_CASE("threads at random never exceed the limits, nor see closed what they hold") {
  Fixture f;
  f.options.flags = GENERATE(0u, unsigned{RDM_DOMAIN_LEAVE_NOTHING_PINNED});
  f.options.count = 6;
  f.options.bytes = 12 * kPage;
  f.peers.opens_once = GENERATE(false, true);
  f.open();
  std::atomic<int> wrong{0};
  std::atomic<int> got{0};
  const auto work = [&](uint64_t seed) {
    Random random{seed};
    std::vector<rdm_remote_mapping> held;
    for (int i = 0; i < 4000; ++i) {
      if (random.below(50) == 0) rdm_remote_forget(f.cache, random.below(2), 0, 8 * kPage);
      if (!held.empty() && (held.size() == 2 || random.below(2) == 0)) {
        const size_t which = random.below(held.size());
        wrong += f.peers.is_open(held[which]) ? 0 : 1;
        wrong += rdm_remote_put(f.cache, &held[which]) == RDM_OK ? 0 : 1;
        held.erase(held.begin() + static_cast<ptrdiff_t>(which));
        continue;
      }
      rdm_remote_mapping mapping{};
      const char* const handle = random.below(8) == 0 ? "second" : "first";
      const Memory memory = page_of(random.below(2), random.below(12), 1 + random.below(3), handle);
      const int status = f.get(memory, &mapping);
      if (status == RDM_OK) {
        wrong += f.peers.is_open(mapping) ? 0 : 1;
        held.push_back(mapping);
        ++got;
      } else {
        wrong += status == RDM_OUT_OF_BUDGET || status == RDM_BUSY ? 0 : 1;
        wrong += *last_error() != '\0' ? 0 : 1;
      }
    }
    for (const rdm_remote_mapping& mapping : held) {
      wrong += rdm_remote_put(f.cache, &mapping) == RDM_OK ? 0 : 1;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  REQUIRE(wrong == 0);
  REQUIRE(got > 1000);
  REQUIRE(f.peers.most_open() <= 6);
  REQUIRE(f.peers.most_bytes() <= 12 * kPage);
  if (f.options.flags != 0) REQUIRE(f.peers.open().empty());
  f.close();
}

// -- failures -----------------------------------------------------------------------------------

TEST_CASE("whichever open fails, its caller is told why and nothing else is lost") {
  for (uint64_t k = 1; k <= 8; ++k) {
    Fixture f;
    f.options.count = 3;
    f.peers.fail_only = k;
    f.open();
    uint64_t failed = 0;
    for (uint64_t page = 0; page < 8; ++page) {
      rdm_remote_mapping mapping{};
      const int status = f.get(page_of(1, page), &mapping);
      if (status == RDM_OK) {
        f.put(mapping);
      } else {
        ++failed;
        REQUIRE(page + 1 == k);
        REQUIRE(status == RDM_SYSTEM);
        REQUIRE(says("was to fail"));
        REQUIRE(mapping.address == nullptr);
        f.use(page_of(1, page));
      }
    }
    REQUIRE(failed == 1);
    REQUIRE(f.counts().open == 3);
    f.close();
  }
}

TEST_CASE("a status that makes no sense, or has no reason, is a failure with a sentence") {
  Fixture f;
  f.peers.fail_from = 1;
  f.peers.gives_reasons = false;
  f.peers.fail_status = GENERATE(-5, 77, int{RDM_NOT_REGISTERED}, int{RDM_UNSUPPORTED});
  f.open();
  rdm_remote_mapping mapping{};
  const int status = f.get(page_of(1, 0), &mapping);
  REQUIRE(status == (f.peers.fail_status == RDM_UNSUPPORTED ? RDM_UNSUPPORTED : RDM_SYSTEM));
  REQUIRE(says("no reason was given"));
  REQUIRE(f.counts().open == 0);
  f.close();
}

TEST_CASE("an open that says yes and gives no address is a failure with a sentence") {
  Fixture f;
  f.peers.gives_no_address = true;
  f.open();
  rdm_remote_mapping none{};
  REQUIRE(f.get(page_of(1, 0), &none) == RDM_SYSTEM);
  REQUIRE(says("no address"));
  REQUIRE(f.counts().open == 0);
  f.close();
}

TEST_CASE("what is in the way and not this cache's is refused with the reason that opening gave") {
  Fixture f;
  f.peers.fail_only = 1;
  f.peers.fail_status = RDM_BACKEND_OVERLAPS;
  f.open();
  rdm_remote_mapping none{};
  REQUIRE(f.get(page_of(1, 0), &none) == RDM_BUSY);
  REQUIRE(says("was to fail"));
  f.use(page_of(1, 0));
  f.close();
}

TEST_CASE("an open that asks to come later is called again") {
  Fixture f;
  f.peers.fail_only = 1;
  f.peers.fail_status = RDM_BACKEND_LATER;
  f.open();
  f.use(page_of(1, 0));
  f.close();
}

TEST_CASE("when opening finds no room, idle handles are closed for it") {
  Fixture f;
  f.peers.room = 4 * kPage;
  f.open();
  const rdm_remote_mapping held = f.got(page_of(1, 0));
  for (uint64_t page = 1; page < 20; ++page) f.use(page_of(1, page));
  REQUIRE(f.counts().evictions == 16);
  f.use(page_of(1, 30, 3));
  rdm_remote_mapping none{};
  REQUIRE(f.get(page_of(1, 40, 4), &none) == RDM_OUT_OF_BUDGET);
  REQUIRE(*last_error() != '\0');
  REQUIRE(f.peers.open().size() == 1);
  f.put(held);
  f.close();
}

TEST_CASE("a handle that cannot be closed is said when the cache is, and the next starts anew") {
  Fixture f;
  f.options.count = 1;
  f.open();
  f.use(page_of(1, 0));
  f.peers.close_status = RDM_SYSTEM;
  rdm_remote_mapping none{};
  REQUIRE(f.get(page_of(1, 1), &none) == RDM_OUT_OF_BUDGET);
  f.peers.close_status = RDM_OK;
  REQUIRE(rdm_remote_cache_close(f.cache) == RDM_SYSTEM);
  REQUIRE(says("could not be closed"));
  REQUIRE(f.peers.closed() == 1);
  for (int i = 0; i < 70; ++i) {
    Fixture another;
    another.options.count = 1;
    another.open();
    another.use(page_of(1, 0));
    another.close();
  }
}

// -- bad input ----------------------------------------------------------------------------------

TEST_CASE("a cache with references out stays open, and says how many") {
  Fixture f;
  f.open();
  const rdm_remote_mapping first = f.got(page_of(1, 0));
  const rdm_remote_mapping second = f.got(page_of(1, 1, 1));
  rdm_remote_forget(f.cache, 1, kPage, kPage);
  REQUIRE(rdm_remote_cache_close(f.cache) == RDM_BUSY);
  REQUIRE(says("2 opened handles"));
  REQUIRE(f.peers.closed() == 0);
  f.use(page_of(1, 5));
  f.put(first);
  REQUIRE(rdm_remote_cache_close(f.cache) == RDM_BUSY);
  f.put(second);
  f.close();
  REQUIRE(rdm_remote_cache_close(f.cache) == RDM_INVALID);
  REQUIRE(says("no open cache"));
}

TEST_CASE("giving back twice, or what never was out, is refused") {
  Fixture f;
  f.options.flags = GENERATE(0u, unsigned{RDM_DOMAIN_LEAVE_NOTHING_PINNED});
  f.open();
  const rdm_remote_mapping mapping = f.got(page_of(1, 0));
  rdm_remote_mapping other = mapping;
  other.length += 1;
  REQUIRE(rdm_remote_put(f.cache, &other) == RDM_INVALID);
  REQUIRE(says("no such mapping is out"));
  f.put(mapping);
  REQUIRE(rdm_remote_put(f.cache, &mapping) == RDM_INVALID);
  int status = RDM_OK;
  std::thread([&] { status = rdm_remote_put(f.cache, &mapping); }).join();
  REQUIRE(status == RDM_INVALID);
  f.use(page_of(1, 0));
  f.close();
}

TEST_CASE("a mapping may be given back by another thread") {
  Fixture f;
  f.open();
  const rdm_remote_mapping mapping = f.got(page_of(1, 0));
  int status = RDM_SYSTEM;
  std::thread([&] { status = rdm_remote_put(f.cache, &mapping); }).join();
  REQUIRE(status == RDM_OK);
  REQUIRE(rdm_remote_put(f.cache, &mapping) == RDM_INVALID);
  f.close();
}

TEST_CASE("memory that cannot be is refused with a sentence") {
  Fixture f;
  f.open();
  rdm_remote_mapping mapping{};
  const auto refused = [&](const rdm_remote_memory& memory, const char* why) {
    REQUIRE(rdm_remote_get(f.cache, &memory, &mapping) == RDM_INVALID);
    REQUIRE(says(why));
  };
  const std::string longest(RDM_REMOTE_MAX_HANDLE, 'h');
  const std::string too_long(RDM_REMOTE_MAX_HANDLE + 1, 'h');
  refused({1, 0, 0, "h", 1}, "no bytes");
  refused({1, UINT64_MAX - 10, 100, "h", 1}, "wraps around");
  refused({1, kPage, SIZE_MAX, "h", 1}, "wraps around");
  refused({1, 0, kPage, nullptr, 8}, "no handle");
  refused({1, 0, kPage, "h", 0}, "no handle");
  refused({1, 0, kPage, too_long.data(), too_long.size()}, "RDM_REMOTE_MAX_HANDLE");
  const rdm_remote_memory fine = {1, 0, kPage, longest.data(), longest.size()};
  REQUIRE(rdm_remote_get(f.cache, nullptr, &mapping) == RDM_INVALID);
  REQUIRE(rdm_remote_get(f.cache, &fine, nullptr) == RDM_INVALID);
  REQUIRE(rdm_remote_get(nullptr, &fine, &mapping) == RDM_INVALID);
  REQUIRE(says("no open cache"));
  REQUIRE(rdm_remote_put(f.cache, nullptr) == RDM_INVALID);
  REQUIRE(rdm_remote_put(nullptr, &mapping) == RDM_INVALID);
  REQUIRE(rdm_remote_counts_get(f.cache, nullptr) == RDM_INVALID);
  rdm_remote_forget(f.cache, 1, 0, 0);
  rdm_remote_forget(nullptr, 1, 0, 1);
  REQUIRE(f.peers.opened() == 0);
  REQUIRE(rdm_remote_get(f.cache, &fine, &mapping) == RDM_OK);
  f.put(mapping);
  f.close();
}

TEST_CASE("a cache that cannot be opened so is refused with a sentence, told twice") {
  Fixture f;
  char error[200] = {};
  f.options.error = error;
  f.options.error_size = sizeof error;
  rdm_remote_operations operations = f.peers.operations();
  const auto refused = [&](const rdm_remote_operations* given, const char* why) {
    REQUIRE(rdm_remote_cache_open(given, &f.peers, &f.options, &f.cache) == RDM_INVALID);
    REQUIRE(says(why));
    REQUIRE(strcmp(error, last_error()) == 0);
    REQUIRE(f.cache == nullptr);
  };
  refused(nullptr, "table of operations");
  operations.open = nullptr;
  refused(&operations, "table of operations");
  operations = f.peers.operations();
  operations.size = 8;
  refused(&operations, "table of operations");
  operations = f.peers.operations();
  f.options.flags = 1024;
  refused(&operations, "flags");
  f.options.flags = 0;
  f.options.count = 65536;
  refused(&operations, "count");
  f.options.count = 65535;
  REQUIRE(rdm_remote_cache_open(&operations, &f.peers, &f.options, nullptr) == RDM_INVALID);
  f.options.size = 1;
  REQUIRE(rdm_remote_cache_open(&operations, &f.peers, &f.options, &f.cache) == RDM_INVALID);
  REQUIRE(f.peers.closed() == 0);
}

TEST_CASE("there may be so many caches, and one more when one is closed") {
  Fixture f;
  const rdm_remote_operations operations = f.peers.operations();
  std::vector<rdm_remote_cache*> caches;
  rdm_remote_cache* cache = nullptr;
  int status = RDM_OK;
  while ((status = rdm_remote_cache_open(&operations, &f.peers, nullptr, &cache)) == RDM_OK) {
    caches.push_back(cache);
    REQUIRE(caches.size() <= 1000);
  }
  REQUIRE(status == RDM_UNSUPPORTED);
  REQUIRE(says("too many"));
  REQUIRE(caches.size() == 64);
  REQUIRE(rdm_remote_cache_close(caches.back()) == RDM_OK);
  REQUIRE(rdm_remote_cache_open(&operations, &f.peers, nullptr, &caches.back()) == RDM_OK);
  for (rdm_remote_cache* const one : caches) REQUIRE(rdm_remote_cache_close(one) == RDM_OK);
}

// -- fork ---------------------------------------------------------------------------------------

int in_child(Fixture& f, const rdm_remote_mapping& held) {
  rdm_remote_mapping mapping{};
  rdm_remote_counts counts{};
  if (f.get(page_of(1, 0), &mapping) != RDM_INVALID || !says("the parent's")) return 1;
  if (rdm_remote_put(f.cache, &held) != RDM_INVALID) return 2;
  if (rdm_remote_counts_get(f.cache, &counts) != RDM_INVALID) return 3;
  rdm_remote_forget(f.cache, 1, 0, SIZE_MAX);
  const size_t open = f.peers.open().size();
  if (rdm_remote_cache_close(f.cache) != RDM_OK) return 4;
  if (f.peers.open().size() != open || f.peers.closed_in_child() != 1) return 5;
  fake::Peers own;
  const rdm_remote_operations operations = own.operations();
  if (rdm_remote_cache_open(&operations, &own, nullptr, &f.cache) != RDM_OK) return 6;
  if (f.get(page_of(1, 0), &mapping) != RDM_OK || !own.is_open(mapping)) return 7;
  if (rdm_remote_put(f.cache, &mapping) != RDM_OK) return 8;
  return rdm_remote_cache_close(f.cache) == RDM_OK ? 0 : 9;
}

TEST_CASE("in a child of fork a cache may be closed, which closes no handle, and nothing else") {
  Fixture f;
  f.open();
  f.use(page_of(1, 0));
  const rdm_remote_mapping held = f.got(page_of(1, 1));
  REQUIRE(test::run_child([&] { return in_child(f, held); }).status() == 0);
  REQUIRE(f.peers.open().size() == 2);
  f.use(page_of(1, 0));
  f.put(held);
  f.close();
}

}  // namespace
}  // namespace rdmalloc
