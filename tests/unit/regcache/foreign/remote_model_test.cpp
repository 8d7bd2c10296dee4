// A cache of opened handles against a naive model: the same random requests to both, in any order.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "regcache/foreign/remote_cache.h"
#include "tests/support/catch.h"
#include "tests/support/fake_os.h"
#include "tests/support/fake_peers.h"

namespace rdmalloc {
namespace {

constexpr uint64_t kPeers = 3;
constexpr uint64_t kUnits = 14;  // of a peer's memory
constexpr size_t kUnit = 4096;

struct Random {
  uint64_t state;
  uint64_t below(uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  }
};

struct Memory {
  uint64_t peer, base;
  size_t length;
  std::string handle;

  bool overlaps(const Memory& other) const {
    return peer == other.peer && base < other.base + other.length && other.base < base + length;
  }
  rdm_remote_memory described() const { return {peer, base, length, handle.data(), handle.size()}; }
};

// What is open, in a list. Its last use is known only up to the order in which the cache looked for
// victims: from `oldest` to `newest`.
struct Known {
  Memory memory;
  uintptr_t address;
  int users;
  bool doomed;
  uint64_t oldest, newest;
};

class Model {
 public:
  Model(const CacheLimits& limits) : limits_(limits) {}

  Known* find(const Memory& memory) {
    for (Known& one : known_) {
      if (!one.doomed && one.memory.peer == memory.peer && one.memory.base == memory.base &&
          one.memory.length >= memory.length && one.memory.handle == memory.handle)
        return &one;
    }
    return nullptr;
  }
  Known* at(uintptr_t address) {
    for (Known& one : known_) {
      if (one.address == address) return &one;
    }
    return nullptr;
  }

  void use(Known& one) {
    ++one.users;
    one.oldest = one.newest = clock_;
  }

  // Removes and returns, by address, what ends at once.
  std::vector<uintptr_t> doom(const Memory& range) {
    std::vector<uintptr_t> ended;
    for (Known& one : known_) {
      if (one.doomed || !one.memory.overlaps(range)) continue;
      one.doomed = true;
      if (one.users == 0) ended.push_back(one.address);
    }
    for (const uintptr_t address : ended) erase(address);
    return ended;
  }

  // True if it ends.
  bool put(Known& one) {
    --one.users;
    const bool ends = one.users == 0 && (one.doomed || !limits_.leave_pinned);
    if (ends) erase(one.address);
    return ends;
  }

  bool has_room(size_t length) const {
    return known_.size() < limits_.count && bytes() + length <= limits_.bytes;
  }
  bool has_idle() const {
    return std::any_of(known_.begin(), known_.end(),
                       [](const Known& one) { return one.users == 0; });
  }

  // False if others should have gone first.
  bool evict(uintptr_t address) {
    const Known* const victim = at(address);
    if (victim == nullptr || victim->users != 0) return false;
    for (const Known& one : known_) {
      if (one.users == 0 && one.newest < victim->oldest) return false;
    }
    // A search for a victim counts the entries in use that it passes as used now.
    const Known was = *victim;
    for (Known& one : known_) {
      if (one.doomed || one.users == 0 || one.oldest > was.newest) continue;
      if (one.newest < was.oldest) one.oldest = clock_;
      one.newest = clock_;
    }
    erase(address);
    return true;
  }
  void find_no_victim() {
    for (Known& one : known_) one.oldest = one.newest = clock_;
  }

  void add(const Memory& memory, uintptr_t address) {
    ++clock_;
    known_.push_back({memory, address, 1, false, clock_, clock_});
  }

  const std::vector<Known>& known() const { return known_; }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const Known& one : known_) sum += one.memory.length;
    return sum;
  }

 private:
  void erase(uintptr_t address) {
    known_.erase(std::find_if(known_.begin(), known_.end(),
                              [&](const Known& one) { return one.address == address; }));
  }

  const CacheLimits limits_;
  uint64_t clock_ = 0;
  std::vector<Known> known_;
};

class Comparison {
 public:
  Comparison(const CacheLimits& limits, uint64_t seed)
      : limits_(limits), model_(limits), random_{seed} {
    RemoteSettings settings;
    settings.limits = limits;
    REQUIRE(cache_->open(peers_.operations(), &peers_, settings));
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      if (i % 16 == 0) compare();
    }
    while (!held_.empty()) put(held_.size() - 1);
    compare();
    REQUIRE(cache_->close() == RDM_OK);
    REQUIRE(peers_.open().empty());
    REQUIRE(peers_.violations().empty());
  }

  uint64_t refused() const { return refused_; }
  uint64_t hits() const { return hits_; }

 private:
  void step() {
    const uint64_t what = random_.below(20);
    if (what == 0) {
      forget();
    } else if (!held_.empty() && (what < 10 || held_.size() > 5)) {
      put(random_.below(held_.size()));
    } else if (what == 10) {
      rdm_remote_mapping none{reinterpret_cast<void*>(8), kUnit};
      REQUIRE(cache_->put(none) == RDM_INVALID);
    } else {
      get();
    }
  }

  void expect_closed(std::vector<uintptr_t> expected) {
    std::vector<uintptr_t> closed = peers_.take_closed();
    std::sort(closed.begin(), closed.end());
    std::sort(expected.begin(), expected.end());
    REQUIRE(closed == expected);
  }

  // Mostly whole exports of a few kinds, so that some requests hit.
  Memory any_memory() {
    const uint64_t base = random_.below(kUnits);
    const size_t units = random_.below(4) == 0 ? 1 + random_.below(4) : 1 + base % 3;
    const char* const handle = random_.below(10) == 0 ? "second" : "first";
    return {random_.below(kPeers), base * kUnit, units * kUnit, handle};
  }

  void get() {
    const Memory memory = any_memory();
    const uint64_t opened = peers_.opened();
    rdm_remote_mapping mapping{};
    const int status = cache_->get(memory.described(), &mapping);
    if (Known* const known = model_.find(memory)) {
      ++hits_;
      REQUIRE(status == RDM_OK);
      REQUIRE(reinterpret_cast<uintptr_t>(mapping.address) == known->address);
      REQUIRE(mapping.length == known->memory.length);
      REQUIRE(peers_.opened() == opened);
      model_.use(*known);
      held_.push_back(mapping);
      expect_closed({});
      return;
    }
    if (memory.length > limits_.bytes) {
      REQUIRE(status == RDM_OUT_OF_BUDGET);
      return expect_closed({});
    }
    const bool has_room = make_room(memory);
    REQUIRE(status == (has_room ? RDM_OK : RDM_OUT_OF_BUDGET));
    REQUIRE(peers_.opened() == opened + (has_room ? 1 : 0));
    refused_ += has_room ? 0 : 1;
    if (!has_room) return;
    REQUIRE(mapping.length == memory.length);
    REQUIRE(peers_.is_open(mapping));
    model_.add(memory, reinterpret_cast<uintptr_t>(mapping.address));
    held_.push_back(mapping);
  }

  // Exactly what had to be closed for a new one was closed, in a valid order.
  bool make_room(const Memory& memory) {
    std::vector<uintptr_t> replaced = model_.doom(memory);
    std::vector<uintptr_t> closed = peers_.take_closed();
    REQUIRE(closed.size() >= replaced.size());
    const auto rest = closed.begin() + static_cast<ptrdiff_t>(replaced.size());
    std::sort(closed.begin(), rest);
    std::sort(replaced.begin(), replaced.end());
    REQUIRE(std::equal(replaced.begin(), replaced.end(), closed.begin()));
    for (auto at = rest; at != closed.end(); ++at) {
      REQUIRE_FALSE(model_.has_room(memory.length));
      REQUIRE(model_.evict(*at));
    }
    if (model_.has_room(memory.length)) return true;
    REQUIRE_FALSE(model_.has_idle());
    model_.find_no_victim();
    return false;
  }

  void put(size_t which) {
    const rdm_remote_mapping mapping = held_[which];
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(which));
    const auto address = reinterpret_cast<uintptr_t>(mapping.address);
    REQUIRE(cache_->put(mapping) == RDM_OK);
    expect_closed(model_.put(*model_.at(address)) ? std::vector<uintptr_t>{address}
                                                  : std::vector<uintptr_t>{});
  }

  void forget() {
    const Memory range = {random_.below(kPeers), random_.below(kUnits) * kUnit,
                          (1 + random_.below(3)) * kUnit, ""};
    const bool all = random_.below(8) == 0;
    const Memory everything = {range.peer, 0, SIZE_MAX, ""};
    const Memory& forgotten = all ? everything : range;
    cache_->forget(forgotten.peer, forgotten.base, forgotten.length);
    expect_closed(model_.doom(forgotten));
  }

  void compare() {
    REQUIRE(cache_->validate());
    const auto open = peers_.open();
    REQUIRE(open.size() == model_.known().size());
    for (const Known& one : model_.known()) {
      const auto found = open.find(one.address);
      REQUIRE(found != open.end());
      REQUIRE(found->second.length == one.memory.length);
      REQUIRE(found->second.handle == one.memory.handle);
    }
    rdm_remote_counts counts{};
    REQUIRE(cache_->counts(&counts) == RDM_OK);
    REQUIRE(counts.open == open.size());
    REQUIRE(counts.open_bytes == model_.bytes());
    REQUIRE(counts.hits == hits_);
    REQUIRE(counts.open <= limits_.count);
    REQUIRE(counts.open_bytes <= limits_.bytes);
  }

  const CacheLimits limits_;
  fake::Peers peers_;
  std::unique_ptr<RemoteCache> cache_ = std::make_unique<RemoteCache>();
  Model model_;
  Random random_;
  std::vector<rdm_remote_mapping> held_;
  uint64_t refused_ = 0;
  uint64_t hits_ = 0;
};

TEST_CASE("a cache of opened handles does what its model does, in each of the four ways") {
  uint64_t hits = 0;
  uint64_t refused = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    CacheLimits limits;
    limits.leave_pinned = seed % 2 == 0;
    const bool is_limited = seed % 4 >= 2;
    limits.count = is_limited ? 3 + static_cast<uint32_t>(seed % 5) : 1024;
    if (is_limited) limits.bytes = (4 + seed % 7) * kUnit;
    INFO("seed " << seed);
    Comparison comparison(limits, seed);
    comparison.run(2000);
    hits += comparison.hits();
    refused += comparison.refused();
    fake::reset();
  }
  REQUIRE(hits > 1000);
  REQUIRE(refused > 100);
}

}  // namespace
}  // namespace rdmalloc
