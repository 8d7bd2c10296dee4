// The memory regions that the verbs shim hands out.
#include <set>
#include <thread>
#include <vector>

#include "regcache/preload/verbs/slab.h"
#include "tests/support/catch.h"

namespace rdmalloc::shim {

TEST_CASE("what was taken is known by its address, and nothing else is") {
  MrSlab slab;
  ibv_mr foreign{};
  CHECK(slab.find(&foreign) == nullptr);
  CHECK(slab.find(nullptr) == nullptr);
  AnsweredMr* record = slab.take();
  REQUIRE(record != nullptr);
  CHECK(slab.find(&record->mr) == record);
  CHECK(slab.find(&foreign) == nullptr);
  CHECK(slab.find(nullptr) == nullptr);
  const auto* inside = reinterpret_cast<const ibv_mr*>(reinterpret_cast<const char*>(record) + 8);
  CHECK(slab.find(inside) == nullptr);
}

TEST_CASE("what a driver looks at behind the public struct is zero") {
  MrSlab slab;
  for (int round = 0; round < 3; ++round) {
    AnsweredMr* record = slab.take();
    CHECK(record->type == 0);
    for (const unsigned char byte : record->driver) CHECK(byte == 0);
    record->mr.lkey = 7;
    REQUIRE(MrSlab::claim(record));
    slab.give_back(record);
    CHECK(record->mr.lkey == 0);
  }
}

TEST_CASE("a record is given back once") {
  MrSlab slab;
  AnsweredMr* record = slab.take();
  CHECK(MrSlab::claim(record));
  CHECK_FALSE(MrSlab::claim(record));
  slab.give_back(record);
  CHECK_FALSE(MrSlab::claim(record));
}

TEST_CASE("records are used again, and never twice at a time") {
  MrSlab slab;
  std::set<AnsweredMr*> all;
  for (int round = 0; round < 10; ++round) {
    std::vector<AnsweredMr*> held;
    for (int i = 0; i < 100; ++i) held.push_back(slab.take());
    CHECK(std::set<AnsweredMr*>(held.begin(), held.end()).size() == held.size());
    all.insert(held.begin(), held.end());
    for (AnsweredMr* record : held) {
      REQUIRE(MrSlab::claim(record));
      slab.give_back(record);
    }
  }
  CHECK(all.size() == 100);
}

TEST_CASE("threads never get the same record") {
  MrSlab slab;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t name = 1; name <= 4; ++name) {
    threads.emplace_back([&slab, &wrong, name] {
      std::vector<AnsweredMr*> held;
      for (int i = 0; i < 20'000; ++i) {
        if (held.size() < 8) {
          held.push_back(slab.take());
          held.back()->mr.lkey = name;
          continue;
        }
        AnsweredMr* record = held[static_cast<size_t>(i) % held.size()];
        std::swap(held[static_cast<size_t>(i) % held.size()], held.back());
        held.pop_back();
        if (record->mr.lkey != name || !MrSlab::claim(record)) ++wrong;
        slab.give_back(record);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace rdmalloc::shim
