// Exposed memory in the heap: separate pinned regions, whole pages, every size known.
#include <string.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::Call;
using fake::kGiB;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

// allocate_exposed(), checking that the memory is open, exposed, and pinned by this process.
void* take_exposed(TestHeap& tested, size_t size, size_t alignment = kPage) {
  void* got = tested->blocks().allocate_exposed(size, alignment);
  if (got == nullptr) return nullptr;
  fake::hold(got, size);
  const Region& region = tested.region_of(got);
  REQUIRE(region.exposed);
  REQUIRE(region.locked);
  REQUIRE(region.kind == RegionKind::kPinned);
  REQUIRE(reinterpret_cast<uintptr_t>(got) % alignment == 0);
  REQUIRE(reinterpret_cast<uintptr_t>(got) + size <= region.end());
  REQUIRE(tested->blocks().size_of(got) == size);
  return got;
}

bool resize_exposed(TestHeap& tested, void* address, size_t size) {
  if (!tested->blocks().resize(address, size)) return false;
  fake::drop(address);
  fake::hold(address, size);
  return true;
}

bool give_exposed(TestHeap& tested, void* address) {
  fake::drop(address);
  return tested->blocks().release(address);
}

}  // namespace

TEST_CASE("exposed and ordinary memory never share a region") {
  const std::string cap = "CAP=" + std::to_string(16384 * kPage);
  TestHeap tested({cap.c_str()});
  tested.boot();
  std::mt19937 random(1);
  struct Extent {
    void* address;
    size_t size;
    bool exposed;
  };
  std::vector<Extent> live;
  for (int step = 0; step < 2000; ++step) {
    if (live.size() > 50 || (random() % 3 == 0 && !live.empty())) {
      std::swap(live[random() % live.size()], live.back());
      const Extent extent = live.back();
      live.pop_back();
      const bool given = extent.exposed ? give_exposed(tested, extent.address)
                                        : tested.give(extent.address, extent.size);
      REQUIRE(given);
    } else {
      const size_t size = (1 + random() % 64) * kPage;
      const bool exposed = random() % 2 == 0;
      void* got = exposed ? take_exposed(tested, size) : tested.take(size);
      REQUIRE(got != nullptr);
      REQUIRE(tested.region_of(got).exposed == exposed);
      live.push_back({got, size, exposed});
    }
    if (step % 50 == 0) REQUIRE(tested.unsound() == "");
  }
  CHECK(tested.unsound() == "");
}

TEST_CASE("all exposed regions lie above all others, until the two meet in the window") {
  TestHeap tested({"WINDOW=64M"});
  tested.boot();
  bool served = true;
  for (int i = 0; served; ++i) {
    served = (i % 2 == 0 ? tested.take(kMiB) : take_exposed(tested, kMiB)) != nullptr;
  }
  uintptr_t highest_ordinary = 0;
  uintptr_t lowest_exposed = UINTPTR_MAX;
  for (size_t i = 0; i < tested->regions().size(); ++i) {
    const Region& region = tested->regions()[i];
    if (region.exposed) {
      lowest_exposed = std::min(lowest_exposed, region.base);
    } else {
      highest_ordinary = std::max(highest_ordinary, region.end());
    }
  }
  CHECK(highest_ordinary < lowest_exposed);
  CHECK(tested->window().left() < 2 * kMiB);
  CHECK(tested.unsound() == "");
}

TEST_CASE("beyond the cap exposed memory is refused, and ordinary memory overflows") {
  TestHeap tested({"CAP=1M"});
  tested.boot();
  std::vector<void*> all;
  while (void* got = take_exposed(tested, 64 * kKiB)) all.push_back(got);
  CHECK(all.size() <= 16);
  CHECK(all.size() >= 14);  // regions end in pieces too small for a request
  CHECK(tested->budget().charges().overflow() == 0);
  CHECK(tested.region_of(tested.take(64 * kKiB)).kind == RegionKind::kOverflow);
  CHECK(take_exposed(tested, 64 * kKiB) == nullptr);  // not from overflow either
  REQUIRE(give_exposed(tested, all[7]));
  CHECK(take_exposed(tested, 64 * kKiB) == all[7]);
  CHECK(tested.unsound() == "");
}

TEST_CASE("exposed memory that the kernel will not lock is refused, and nothing of it is kept") {
  TestHeap tested;
  tested.boot();
  fake::fail_from(Call::kLock, 1, Status::kOutOfBudget);
  CHECK(take_exposed(tested, kMiB) == nullptr);
  CHECK(tested->budget().charges().held() == 0);
  CHECK(tested.opened() == 0);
  CHECK(tested.take(kMiB) != nullptr);
  fake::fail_nothing();
  CHECK(tested.unsound() == "");
}

TEST_CASE("a free exposed extent is never given to malloc, even where memory has run out") {
  TestHeap tested({"MEMORY_CAP=4M"});
  tested.boot();
  void* exposed = take_exposed(tested, 2 * kMiB);
  REQUIRE(give_exposed(tested, exposed));
  while (void* got = tested.take(64 * kKiB)) CHECK_FALSE(tested.region_of(got).exposed);
  CHECK(take_exposed(tested, 2 * kMiB) == exposed);
}

TEST_CASE("the first exposed region is small, however much the heap holds") {
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  REQUIRE(tested.take(2 * kGiB) != nullptr);
  REQUIRE(take_exposed(tested, kPage) != nullptr);
  CHECK(tested.last_region().length == 128 * kKiB);
}

TEST_CASE("an exposed extent is released once, by its start, and through its own door") {
  TestHeap tested;
  tested.boot();
  auto* got = static_cast<char*>(take_exposed(tested, 4 * kPage));
  auto* next = static_cast<char*>(take_exposed(tested, kPage));
  REQUIRE(got != nullptr);
  int local = 0;
  for (void* wrong : {static_cast<void*>(got + kPage), static_cast<void*>(got + 8),
                      tested.take(kPage), static_cast<void*>(next + kPage),
                      static_cast<void*>(&local), static_cast<void*>(nullptr)}) {
    CHECK_FALSE(tested->blocks().release(wrong));
    CHECK_FALSE(tested->blocks().resize(wrong, kPage));
    CHECK(tested->blocks().size_of(wrong) == 0);
  }
  CHECK_FALSE(tested->extents().release(got, 4 * kPage));
  REQUIRE(give_exposed(tested, got));
  CHECK_FALSE(tested->blocks().release(got));
  CHECK(tested->blocks().size_of(got) == 0);
  CHECK(tested.unsound() == "");
}

TEST_CASE("an exposed extent grows where it lies while there is room, and shrinks") {
  TestHeap tested;
  tested.boot();
  REQUIRE(give_exposed(tested, take_exposed(tested, 16 * kPage)));  // so that there is room
  auto* got = static_cast<char*>(take_exposed(tested, 4 * kPage));
  REQUIRE(resize_exposed(tested, got, 8 * kPage));
  CHECK(tested->blocks().size_of(got) == 8 * kPage);
  CHECK(tested->blocks().size_of(got + 4 * kPage) == 0);
  CHECK(take_exposed(tested, kPage) == static_cast<void*>(got + 8 * kPage));
  CHECK_FALSE(resize_exposed(tested, got, 9 * kPage));
  CHECK(tested->blocks().size_of(got) == 8 * kPage);
  REQUIRE(resize_exposed(tested, got, kPage));
  CHECK(tested->blocks().size_of(got) == kPage);
  REQUIRE(resize_exposed(tested, got, 8 * kPage));  // the pages are free again
  CHECK(tested.unsound() == "");
}

TEST_CASE("an exposed extent does not grow beyond its region") {
  TestHeap tested;
  tested.boot();
  void* got = take_exposed(tested, 128 * kKiB - kPage);
  CHECK(tested->blocks().resize(got, 128 * kKiB));
  CHECK_FALSE(tested->blocks().resize(got, 128 * kKiB + kPage));
  CHECK(tested.unsound() == "");
}

TEST_CASE("any alignment of exposed memory is kept, and what is too large is refused") {
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  for (size_t alignment = kPage; alignment <= kGiB; alignment *= 8) {
    REQUIRE(take_exposed(tested, 3 * kPage, alignment) != nullptr);
  }
  for (const size_t size : {size_t{1} << 45, size_t{1} << 62, SIZE_MAX & ~(kPage - 1)}) {
    CHECK(take_exposed(tested, size) == nullptr);
  }
  CHECK(take_exposed(tested, kPage, size_t{1} << 62) == nullptr);
  CHECK(tested.unsound() == "");
}

TEST_CASE("exposed memory is placed on the node of the thread that asks") {
  TestHeap tested;
  fake::machine().nodes = 4;
  tested.boot();
  for (const int node : {2, 0, 2}) {
    fake::set_node(node);
    CHECK(tested.region_of(take_exposed(tested, kPage)).node == node);
  }
  fake::set_node(0);
  CHECK(tested->regions().size() == 2);
}

TEST_CASE("exposed extents count as live, and their records as metadata") {
  TestHeap tested;
  tested.boot();
  REQUIRE(tested.take(kMiB) != nullptr);
  const HeapCounters before = heap_counters(*tested);
  void* got = take_exposed(tested, 256 * kKiB);
  HeapCounters now = heap_counters(*tested);
  CHECK(now.live == kMiB + 256 * kKiB);
  CHECK(now.live_exposed == 256 * kKiB);
  CHECK(now.live_blocks == 256 * kKiB);
  CHECK(now.metadata >= before.metadata + kKiB * 64);
  REQUIRE(tested->blocks().resize(got, 64 * kKiB));
  CHECK(heap_counters(*tested).live_exposed == 64 * kKiB);
  REQUIRE(give_exposed(tested, got));
  now = heap_counters(*tested);
  CHECK(now.live == kMiB);
  CHECK(now.live_exposed == 0);
}

TEST_CASE("without a window there is no exposed memory") {
  TestHeap tested;
  fake::fail_from(Call::kReserve, 1);
  tested.boot();
  CHECK(tested->blocks().allocate_exposed(kPage, kPage) == nullptr);
  CHECK(validate(*tested));
}

TEST_CASE("a forked child is given no exposed memory of its parent's, but may have its own") {
  TestHeap tested;
  tested.boot();
  void* freed = take_exposed(tested, 64 * kKiB);
  void* kept = take_exposed(tested, 8 * kPage);
  REQUIRE(give_exposed(tested, freed));
  before_fork(*tested);
  after_fork_in_child(*tested);
  CHECK(validate(*tested));
  CHECK(tested->blocks().size_of(kept) == 8 * kPage);
  // take_exposed() requires it to be locked.
  const void* own = take_exposed(tested, 64 * kKiB);
  REQUIRE(own != nullptr);
  CHECK(own != freed);
  CHECK_FALSE(tested->blocks().resize(kept, 16 * kPage));
  CHECK(resize_exposed(tested, kept, 4 * kPage));
  REQUIRE(give_exposed(tested, kept));
  CHECK_FALSE(tested->blocks().release(kept));
  CHECK(validate(*tested));
  for (int i = 0; i < 100; ++i) REQUIRE(take_exposed(tested, 8 * kPage) != kept);
  CHECK(validate(*tested));
}

TEST_CASE("one failing call, whichever it is, leaves exposed memory sound") {
  for (size_t call = 0; call < fake::kCalls; ++call) {
    for (size_t k = 1;; ++k) {
      const auto which = static_cast<Call>(call);
      INFO(fake::name(which) << " fails at call " << k);
      TestHeap tested({"SEAL=on", "HUGE=hugetlb", "CAP=32M"});
      fake::machine().nodes = 2;
      fake::machine().huge_pages = 5;
      fake::fail(which, k);
      tested.boot();
      std::vector<void*> live;
      for (size_t i = 0; i < 60; ++i) {
        fake::set_node(static_cast<int>(i % 2));
        if (i % 4 == 3 && live.size() > 2) {
          REQUIRE(give_exposed(tested, live[live.size() / 2]));
          live.erase(live.begin() + static_cast<ptrdiff_t>(live.size() / 2));
        } else if (void* got = take_exposed(tested, (1 + i * 7 % 300) * kPage)) {
          live.push_back(got);
        }
        REQUIRE(tested.unsound() == "");
      }
      fake::set_node(0);
      const bool reached = fake::calls(which) >= k;
      fake::fail_nothing();
      if (tested->window().size() != 0) REQUIRE(take_exposed(tested, kPage) != nullptr);
      REQUIRE(tested.unsound() == "");
      if (!reached) break;
    }
  }
}

TEST_CASE("an exposed extent without a record is lost, and not handed out twice") {
  TestHeap tested;
  tested.boot();
  std::vector<void*> all;
  for (int i = 0; i < 4096; ++i) all.push_back(take_exposed(tested, kPage));
  fake::fail_from(Call::kMapMetadata, 1);
  for (size_t i = 0; i < all.size(); i += 2) REQUIRE(give_exposed(tested, all[i]));
  CHECK(tested.unsound() == "");
  fake::fail_nothing();
  for (int i = 0; i < 4096; ++i) REQUIRE(take_exposed(tested, kPage) != nullptr);
  CHECK(tested.unsound() == "");
}

TEST_CASE("threads that take, resize and release exposed memory leave it sound") {
  TestHeap tested;
  tested.boot();
  std::atomic<size_t> bad{0};
  const auto work = [&](uint32_t id) {
    std::mt19937 random(id);
    std::vector<unsigned char*> live;
    for (int step = 0; step < 3000; ++step) {
      if (live.size() > 20) {
        std::swap(live[random() % live.size()], live.back());
        unsigned char* chosen = live.back();
        if (chosen[0] != id || chosen[kPage - 1] != id) ++bad;
        if (random() % 2 == 0) {
          (void)tested->blocks().resize(chosen, (1 + random() % 20) * kPage);
        } else {
          if (!tested->blocks().release(chosen)) ++bad;
          live.pop_back();
        }
      } else {
        void* got = tested->blocks().allocate_exposed((1 + random() % 20) * kPage, kPage);
        if (got == nullptr || !tested->regions().find(got)->exposed) {
          ++bad;
          continue;
        }
        live.push_back(static_cast<unsigned char*>(got));
        memset(got, static_cast<int>(id), kPage);
        bool zero = false;
        void* ordinary = tested->extents().allocate(nullptr, kPage, kPage, &zero);
        if (ordinary == nullptr || tested->regions().find(ordinary)->exposed) ++bad;
        if (!tested->extents().release(ordinary, kPage)) ++bad;
      }
    }
    for (unsigned char* address : live) bad += tested->blocks().release(address) ? 0 : 1;
  };
  std::vector<std::thread> threads;
  for (uint32_t id = 1; id <= 4; ++id) threads.emplace_back(work, id);
  for (int i = 0; i < 20; ++i) bad += validate(*tested) ? 0 : 1;
  for (std::thread& thread : threads) thread.join();
  CHECK(bad == 0);
  CHECK(heap_counters(*tested).live == 0);
  CHECK(tested.unsound() == "");
}

}  // namespace rdmalloc
