// What is kept, for how long, and what is evicted first: entries without memory, device or lock.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "regcache/foreign/policy.h"
#include "tests/support/catch.h"
#include "tests/support/fake_os.h"

namespace rdmalloc {
namespace {

// Used by one thread, as under a cache's lock, except where a test starts others.
struct Fixture {
  explicit Fixture(const CacheLimits& limits = {}) {
    fake::reset();
    REQUIRE(policy.open(limits));
  }

  CacheEntry* admitted(uint64_t bytes = 1) {
    CacheEntry* const entry = policy.admit(bytes);
    REQUIRE(entry != nullptr);
    return entry;
  }
  // Built, and in use once.
  CacheEntry* published(EntryState state = EntryState::kLive, uint64_t bytes = 1) {
    CacheEntry* const entry = admitted(bytes);
    policy.publish(*entry, state);
    return entry;
  }
  CacheEntry* idle(uint64_t bytes = 1) {
    CacheEntry* const entry = published(EntryState::kLive, bytes);
    REQUIRE(put(*entry));
    return entry;
  }
  // True: nothing more needs to be done about it.
  bool put(CacheEntry& entry) {
    return policy.entries().release(policy.entries().enter(), policy.entries().index_of(entry));
  }
  // A hit.
  void get(CacheEntry& entry) {
    REQUIRE(policy.entries().reference(policy.entries().enter(), entry,
                                       policy.entries().index_of(entry)));
    policy.touch(entry);
  }
  void use(CacheEntry& entry) {
    get(entry);
    REQUIRE(put(entry));
  }
  // Time advances, as at a miss.
  void tick() { policy.remove(*admitted(0)); }

  CachePolicy policy;
};

CacheLimits limits(uint64_t bytes, uint32_t count) {
  CacheLimits made;
  made.bytes = bytes;
  made.count = count;
  return made;
}

}  // namespace

TEST_CASE("without limits an entry is admitted as long as there are places") {
  Fixture f;
  for (uint32_t i = 0; i < CacheEntries::kCapacity; ++i) REQUIRE(f.policy.admit(1) != nullptr);
  CHECK(f.policy.admit(0) == nullptr);
  CHECK(f.policy.account().count() == CacheEntries::kCapacity);
  CHECK(f.policy.validate());
}

TEST_CASE("the limit of entries is reached exactly, and room comes back when one is removed") {
  Fixture f(limits(UINT64_MAX, 3));
  CacheEntry* const first = f.admitted();
  f.admitted();
  f.admitted();
  CHECK(f.policy.admit(1) == nullptr);
  f.policy.remove(*first);
  CHECK(f.policy.account().count() == 2);
  CHECK(f.policy.admit(1) == first);
  CHECK(f.policy.admit(1) == nullptr);
  CHECK(f.policy.validate());
}

TEST_CASE("the limit of bytes is reached exactly, and cannot be wrapped around") {
  Fixture f(limits(100, 0));
  CacheEntry* const first = f.admitted(60);
  CHECK(f.policy.admit(41) == nullptr);
  CHECK(f.policy.admit(UINT64_MAX) == nullptr);
  CHECK(f.policy.admit(UINT64_MAX - 59) == nullptr);
  f.admitted(40);
  CHECK(f.policy.account().bytes() == 100);
  CHECK(f.policy.admit(1) == nullptr);
  CHECK(f.policy.admit(0) != nullptr);
  f.policy.remove(*first);
  CHECK(f.policy.account().bytes() == 40);
  CHECK(f.policy.validate());
}

TEST_CASE("an entry is charged what it was admitted with, whatever its length becomes") {
  Fixture f(limits(100, 0));
  CacheEntry* const entry = f.admitted(70);
  entry->length = 5;
  f.policy.remove(*entry);
  CHECK(f.policy.account().bytes() == 0);
  CHECK(f.policy.validate());
}

TEST_CASE("there is no entry without memory for them, and there is one when memory came") {
  fake::reset();
  CachePolicy policy;
  fake::fail(fake::Call::kMapMetadata, 1);
  CHECK(!policy.open({}));
  CHECK(!policy.entries().is_open());
  CHECK(policy.open({}));
  CHECK(policy.admit(1) != nullptr);
}

TEST_CASE("the entry used least recently goes first") {
  Fixture f;
  CacheEntry* const a = f.idle();
  CacheEntry* const b = f.idle();
  CacheEntry* const c = f.idle();
  CacheEntry* const d = f.idle();
  f.tick();
  f.use(*a);
  f.tick();
  f.use(*c);
  f.tick();
  f.use(*b);
  for (CacheEntry* const expected : {d, a, c, b}) {
    CacheEntry* const victim = f.policy.choose_victim();
    REQUIRE(victim == expected);
    CHECK(victim->state == EntryState::kRemoving);
    f.policy.remove(*victim);
    CHECK(f.policy.validate());
  }
  CHECK(f.policy.choose_victim() == nullptr);
}

TEST_CASE("entries used between the same two misses all go before one used later") {
  Fixture f;
  std::vector<CacheEntry*> together;
  for (int i = 0; i < 5; ++i) together.push_back(f.idle());
  CacheEntry* const later = f.idle();
  f.tick();
  for (CacheEntry* entry : together) f.use(*entry);
  f.tick();
  f.use(*later);
  for (int i = 0; i < 5; ++i) {
    CacheEntry* const victim = f.policy.choose_victim();
    REQUIRE(victim != nullptr);
    CHECK(victim != later);
    f.policy.remove(*victim);
  }
  CHECK(f.policy.choose_victim() == later);
}

TEST_CASE("an entry in use is no victim, and counts as used when it was looked at") {
  Fixture f;
  CacheEntry* const held = f.published();
  CacheEntry* const first = f.idle();
  CacheEntry* const second = f.idle();
  CHECK(f.policy.choose_victim() == first);
  CHECK(held->state == EntryState::kLive);
  CHECK(f.put(*held));
  CHECK(f.policy.choose_victim() == second);
  CHECK(f.policy.choose_victim() == held);
  CHECK(f.policy.choose_victim() == nullptr);
}

TEST_CASE("an idle entry used a moment ago is found behind older ones in use") {
  Fixture f;
  CacheEntry* const held[] = {f.published(), f.published()};
  CacheEntry* const idle = f.idle();
  f.tick();
  f.use(*idle);
  CHECK(f.policy.choose_victim() == idle);
  CHECK(held[0]->state == EntryState::kLive);
  CHECK(f.policy.validate());
}

TEST_CASE("when all are in use there is no victim, and each was looked at once") {
  Fixture f;
  std::vector<CacheEntry*> held;
  for (int i = 0; i < 1000; ++i) held.push_back(f.published());
  f.tick();
  CHECK(f.policy.choose_victim() == nullptr);
  // Being looked at once means being moved once to the end, in the same order.
  const uint64_t first_turn = held[0]->listed_turn;
  for (size_t i = 0; i < held.size(); ++i) CHECK(held[i]->listed_turn == first_turn + i);
  for (CacheEntry* entry : held) CHECK(entry->state == EntryState::kLive);
  CHECK(f.policy.validate());
}

TEST_CASE("looking for a victim passes what is in use only once until time goes on") {
  Fixture f;
  std::vector<CacheEntry*> held;
  for (int i = 0; i < 100; ++i) held.push_back(f.published());
  CacheEntry* const idle[] = {f.idle(), f.idle(), f.idle()};
  CHECK(f.policy.choose_victim() == idle[0]);
  const uint64_t turn = held.back()->listed_turn;
  CHECK(f.policy.choose_victim() == idle[1]);
  CHECK(f.policy.choose_victim() == idle[2]);
  CHECK(held.back()->listed_turn == turn);
}

TEST_CASE("the four ways differ in what is left of an entry after its last user") {
  for (const bool leave_pinned : {true, false}) {
    for (const uint32_t count : {0U, 1U}) {
      CAPTURE(leave_pinned, count);
      CacheLimits wanted = limits(UINT64_MAX, count);
      wanted.leave_pinned = leave_pinned;
      Fixture f(wanted);
      CHECK(f.policy.account().limits().leave_pinned == leave_pinned);
      CacheEntry* const entry =
          f.published(leave_pinned ? EntryState::kLive : EntryState::kTransient);
      CHECK((f.policy.admit(1) == nullptr) == (count == 1));
      const bool is_over = f.put(*entry);
      CHECK(is_over == leave_pinned);
      if (leave_pinned) {
        CHECK(!f.policy.claim(*entry));
        CHECK(f.policy.choose_victim() == entry);
      } else {
        CHECK(f.policy.choose_victim() == nullptr);
        CHECK(f.policy.claim(*entry));
        CHECK(!f.policy.claim(*entry));
      }
      CHECK(entry->state == EntryState::kRemoving);
      f.policy.remove(*entry);
      CHECK(f.policy.admit(1) != nullptr);
    }
  }
}

TEST_CASE("what is shared while in use ends with the last of its users, in any order") {
  Fixture f;
  CacheEntry* const entry = f.published(EntryState::kTransient);
  f.policy.reference_locked(*entry);
  CHECK(f.policy.entries().users(*entry) == 2);
  CHECK(!f.put(*entry));
  CHECK(!f.policy.claim(*entry));
  CHECK(!f.put(*entry));
  CHECK(f.policy.claim(*entry));
}

TEST_CASE("a doomed entry gives no more references, and ends with its last user") {
  Fixture f;
  CacheEntry* const held = f.published();
  CHECK(!f.policy.doom(*held));
  CHECK(held->state == EntryState::kDoomed);
  CHECK(!f.policy.entries().reference(f.policy.entries().enter(), *held,
                                      f.policy.entries().index_of(*held)));
  CHECK(!f.put(*held));  // of the attempt
  CHECK(!f.policy.claim(*held));
  CHECK(f.policy.choose_victim() == nullptr);
  CHECK(!f.put(*held));
  CHECK(f.policy.claim(*held));
  f.policy.remove(*held);

  CacheEntry* const idle = f.idle();
  CHECK(f.policy.doom(*idle));
  CHECK(idle->state == EntryState::kRemoving);
  f.policy.remove(*idle);
  CHECK(f.policy.validate());
}

TEST_CASE("an attempt to end an entry in use leaves it as it was") {
  Fixture f;
  for (const EntryState state : {EntryState::kLive, EntryState::kTransient}) {
    CacheEntry* const entry = f.published(state);
    CHECK(!f.policy.doom_if_idle(*entry));
    CHECK(entry->state == state);
    (void)f.put(*entry);
    CHECK(f.policy.doom_if_idle(*entry));
    CHECK(!f.policy.claim(*entry));
    f.policy.remove(*entry);
  }
  CHECK(f.policy.validate());
}

TEST_CASE("what is given back too often is told and undone, and what is out stays out") {
  Fixture f;
  CacheEntry* const entry = f.idle();
  CHECK(!f.put(*entry));
  CHECK(f.policy.entries().restore(*entry));
  CHECK(!f.policy.entries().restore(*entry));
  CHECK(f.policy.entries().users(*entry) == 0);
  f.get(*entry);
  CHECK(f.policy.entries().users(*entry) == 1);
  CHECK(f.policy.choose_victim() == nullptr);
  CHECK(f.put(*entry));
  CHECK(f.policy.choose_victim() == entry);
}

TEST_CASE("a reference is given back on another thread") {
  Fixture f;
  CacheEntry* const entry = f.published();
  f.get(*entry);
  for (int left = 1; left >= 0; --left) {
    std::thread([&] {
      // A slot that returned more than it took has to look, and nothing was returned too often.
      CHECK((f.put(*entry) || !f.policy.entries().restore(*entry)));
    }).join();
    CHECK(f.policy.entries().users(*entry) == left);
  }
  CHECK(f.policy.choose_victim() == entry);
}

TEST_CASE("a place that was used before starts without users, whoever held it last") {
  Fixture f(limits(UINT64_MAX, 1));
  for (int round = 0; round < 100; ++round) {
    CacheEntry* const entry = f.published();
    CHECK(f.policy.entries().users(*entry) == 1);
    if (round % 2 == 0) {
      (void)f.put(*entry);
    } else {
      std::thread([&] { (void)f.put(*entry); }).join();
    }
    REQUIRE(f.policy.choose_victim() == entry);
    f.policy.remove(*entry);
    REQUIRE(entry->length == 0);
  }
  CHECK(f.policy.validate());
}

TEST_CASE("threads count users in places of their own") {
  fake::reset();
  std::vector<uint64_t> memory(References::bytes() / sizeof(uint64_t));
  References references;
  references.open(memory.data());
  const uint32_t own = references.enter();
  references.take(own, 0);
  std::thread([&] {
    const uint32_t place = references.enter();
    CHECK(place != own);
    // What another thread took: this one cannot tell that it is not one too many.
    CHECK(!references.give(place, 0));
  }).join();
  CHECK(references.out(0) == 0);
}

TEST_CASE("counts of users may wrap around") {
  fake::reset();
  std::vector<uint64_t> memory(References::bytes() / sizeof(uint64_t));
  // As after that many hits in every slot.
  for (uint64_t& counts : memory) counts = UINT64_MAX;
  References references;
  references.open(memory.data());
  CHECK(references.out(0) == 0);
  references.take(0);
  CHECK(references.out(0) == 1);
  references.take(0);
  CHECK(references.give(references.enter(), 0));
  CHECK(references.give(references.enter(), 0));
  CHECK(references.out(0) == 0);
  CHECK(!references.give(references.enter(), 0));
  CHECK(references.out(0) == -1);
}

TEST_CASE("in the child of a fork every entry is free and has no users") {
  Fixture f(limits(10, 4));
  f.published();
  f.idle();
  CHECK(!f.policy.doom(*f.published()));
  f.admitted();
  f.policy.clear();
  CHECK(f.policy.account().count() == 0);
  CHECK(f.policy.account().bytes() == 0);
  CHECK(f.policy.choose_victim() == nullptr);
  for (int i = 0; i < 4; ++i) CHECK(f.policy.entries().users(*f.published()) == 1);
  CHECK(f.policy.admit(1) == nullptr);
  CHECK(f.policy.validate());
}

// Threads take references as hits do; one ends entries as the lock's holder does.
TEST_CASE("no entry ends while a thread that found it live has its reference") {
  Fixture f;
  constexpr size_t kEntries = 4;
  CacheEntry* entries[kEntries];
  std::atomic<int> inside[kEntries] = {};
  std::atomic<bool> done{false};
  std::atomic<int> hits{0};
  int ended_in_use = 0;
  for (CacheEntry*& entry : entries) entry = f.idle();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const uint32_t place = f.policy.entries().enter();
      for (size_t k = 0; !done; k = (k + 1) % kEntries) {
        const uint32_t index = f.policy.entries().index_of(*entries[k]);
        if (f.policy.entries().reference(place, *entries[k], index)) {
          ++inside[k];
          ++hits;
          --inside[k];
        }
        (void)f.policy.entries().release(place, index);
      }
    });
  }
  int ended = 0;
  while (ended < 20000 || hits < 1000) {
    for (size_t k = 0; k < kEntries; ++k) {
      if (!f.policy.doom_if_idle(*entries[k])) continue;
      ended_in_use += inside[k] != 0 ? 1 : 0;
      ++ended;
      f.policy.remove(*entries[k]);
      // The only free one is reused.
      CacheEntry* const again = f.policy.admit(1);
      if (again != entries[k]) ++ended_in_use;
      f.policy.publish(*again, EntryState::kLive);
      (void)f.put(*again);
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(ended_in_use == 0);
  CHECK(f.policy.validate());
}

}  // namespace rdmalloc
