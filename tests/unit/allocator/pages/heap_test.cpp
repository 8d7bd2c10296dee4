#include "allocator/pages/heap.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {

using fake::Call;
using fake::kGiB;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::reads_zero;
using fake::TestHeap;

TEST_CASE("nothing is held before the first allocation") {
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  CHECK(tested->booted());
  CHECK(tested->budget().charges().held() == 0);
  if (fake::needs_whole_window()) CHECK(tested->window().size() == 64 * kGiB);
  CHECK(tested.unsound().empty());
}

TEST_CASE("a small window's books take a small share of its size") {
  const size_t size = GENERATE(size_t{8}, 16, 64, 1024) * kMiB;
  TestHeap tested({("WINDOW=" + std::to_string(size)).c_str()});
  tested.boot();
  CHECK(tested->window().size() == size);
  CHECK(fake::metadata_bytes() < size / 8);
}

TEST_CASE("the first region is small, and pinned in full") {
  TestHeap tested;
  tested.boot();
  REQUIRE(tested.take(kPage) != nullptr);
  CHECK(tested->regions().size() == 1);
  CHECK(tested.last_region().length == 128 * kKiB);
  CHECK(tested.last_region().locked);
  CHECK(fake::locked() == 128 * kKiB);
  CHECK(tested.unsound().empty());
}

TEST_CASE("a heap of 16 GiB grown in steps of 1 MiB has fewer than 100 regions") {
  if (!fake::needs_whole_window()) return;
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  for (size_t held = 0; held < 16 * kGiB; held += kMiB) REQUIRE(tested.take(kMiB) != nullptr);
  CHECK(tested->regions().size() < 100);
  CHECK(tested.last_region().length <= kGiB);
  CHECK(tested->budget().charges().held() <= 16 * kGiB + 16 * kGiB / 8 + kGiB);
  CHECK(tested.unsound().empty());
}

TEST_CASE("a request larger than the step gets a region of its own size") {
  TestHeap tested;
  tested.boot();
  REQUIRE(tested.take(3 * kMiB) != nullptr);
  CHECK(tested.last_region().length == 3 * kMiB);
  REQUIRE(tested.malloc(20 * kMiB + 1) != nullptr);
  CHECK(tested.last_region().length == 20 * kMiB + kPage);
  CHECK(tested->regions().size() == 2);
  REQUIRE(tested.take(kPage) != nullptr);
  CHECK(tested.last_region().length > kPage);  // a growth step that includes it
  CHECK(tested->regions().size() == 3);
}

TEST_CASE("a request larger than the largest step gets a region of its own size") {
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  REQUIRE(tested.take(3 * kGiB) != nullptr);
  CHECK(tested.last_region().length == 3 * kGiB);
  CHECK(tested->regions().size() == 1);
}

TEST_CASE("what is released is taken again before the heap grows") {
  TestHeap tested;
  tested.boot();
  void* first = tested.take(96 * kKiB);
  REQUIRE(tested.give(first, 96 * kKiB));
  CHECK(tested.take(128 * kKiB) == first);
  CHECK(tested->regions().size() == 1);
  CHECK(fake::calls(Call::kClose) == 0);
  CHECK(fake::calls(Call::kDiscard) == 0);
  CHECK(tested.unsound().empty());
}

TEST_CASE("any alignment is kept, above the region's own too") {
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  for (size_t alignment = kPage; alignment <= kGiB; alignment *= 4) {
    const void* got = tested.take(3 * kPage, alignment);
    REQUIRE(got != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(got) % alignment == 0);
  }
  CHECK(tested.unsound().empty());
}

TEST_CASE("an aligned block is the one freed before, of that size and alignment") {
  TestHeap tested;
  tested.boot();
  for (int i = 0; i < 40; ++i) {
    const auto mixed = kMiB + i % 4 * kPage;
    REQUIRE(tested.malloc(mixed) != nullptr);  // so that few blocks are aligned by chance
    void* const got = tested.malloc(kMiB, 64 * kKiB);
    REQUIRE(got != nullptr);
    REQUIRE(reinterpret_cast<uintptr_t>(got) % (64 * kKiB) == 0);
    REQUIRE(tested.free(got));
    CHECK(tested.malloc(kMiB, 64 * kKiB) == got);
    REQUIRE(tested.free(got));
  }
  CHECK(tested.unsound().empty());
}

TEST_CASE("growth in place takes exactly that range, or nothing") {
  TestHeap tested;
  tested.boot();
  auto* base = static_cast<char*>(tested.take(kPage));
  bool zero = false;
  CHECK(tested->extents().allocate(base, kPage, kPage, &zero) == nullptr);  // taken
  CHECK(tested->extents().allocate(base + kPage, kPage, kPage, &zero) == base + kPage);
  CHECK(tested->extents().allocate(base + 128 * kKiB, kPage, kPage, &zero) == nullptr);  // the gap
  int local = 0;
  CHECK(tested->extents().allocate(&local, kPage, kPage, &zero) == nullptr);
  CHECK(tested->extents().release(base + kPage, kPage));
  CHECK(tested.unsound().empty());
}

TEST_CASE("fresh memory is reported as zero, and is not written to make it so") {
  TestHeap tested;
  tested.boot();
  bool zero = false;
  const void* got = tested.take(kMiB, kPage, &zero);
  CHECK(zero);
  CHECK(reads_zero(got, kMiB));
}

TEST_CASE("reused memory is not reported as zero, and is zeroed when asked") {
  TestHeap tested;
  tested.boot();
  void* got = tested.take(64 * kKiB);
  memset(got, 1, 64 * kKiB);
  REQUIRE(tested.give(got, 64 * kKiB));
  SECTION("not asked") {
    bool zero = false;
    CHECK(tested.take(64 * kKiB, kPage, &zero) == got);
    CHECK_FALSE(zero);
  }
  SECTION("asked") {
    CHECK(tested.take_zeroed(64 * kKiB) == got);
    CHECK(reads_zero(got, 64 * kKiB));
  }
  SECTION("partly fresh") {
    CHECK(tested.take_zeroed(128 * kKiB) == got);
    CHECK(reads_zero(got, 128 * kKiB));
  }
}

TEST_CASE(
    "a large zeroed block is neither populated nor locked, and not held any more when freed") {
  TestHeap tested({"SPARSE_FROM=1M", "POPULATE=now"});
  tested.boot();
  const size_t populated = fake::calls(Call::kPopulate);
  auto* got = static_cast<char*>(tested.malloc(8 * kMiB, 1, true));
  REQUIRE(got != nullptr);
  CHECK(tested.region_of(got).kind == RegionKind::kSparse);
  CHECK(fake::calls(Call::kPopulate) == populated);
  CHECK(fake::locked() == 0);
  memset(got, 1, kMiB);
  const size_t held = tested->budget().charges().held();
  REQUIRE(tested.free(got));
  CHECK(tested->budget().charges().sparse() == 0);
  CHECK(tested->budget().charges().held() == held - 8 * kMiB);
  CHECK(tested->regions().find(got) == nullptr);
  CHECK(tested->blocks().size_of(got) == 0);
  CHECK(tested.unsound() == "");
  CHECK(tested.malloc(8 * kMiB, 1, true) == got);
  CHECK(reads_zero(got, kMiB));
  CHECK(tested->budget().charges().sparse() == 8 * kMiB);
  CHECK(tested.unsound() == "");
}

TEST_CASE("growing zeroed blocks use neither budget nor addresses up") {
  TestHeap tested({"SPARSE_FROM=1M", "MEMORY_CAP=64M"});
  tested.boot();
  (void)tested.take(kPage);
  const size_t held = tested->budget().charges().held();
  const size_t left = tested->window().left();
  const size_t blocks = 10'000 * 4 * kKiB / kPage;
  for (size_t i = 0; i < blocks; ++i) {
    void* const got = tested.malloc(8 * kMiB + i * kPage, 1, true);
    REQUIRE(got != nullptr);
    REQUIRE(tested.free(got));
  }
  CHECK(tested->budget().charges().held() == held);
  CHECK(left - tested->window().left() <= 4 * (8 * kMiB + blocks * kPage));
  CHECK(tested->regions().size() < 1100);  // slots are reused after some time
  CHECK(tested.unsound() == "");
}

TEST_CASE("a sparse region is held as long as some of it is in use") {
  TestHeap tested({"SPARSE_FROM=1M"});
  tested.boot();
  auto* const got = static_cast<char*>(tested.malloc(8 * kMiB, 1, true));
  REQUIRE(tested.resize(got, 4 * kMiB));
  void* const other = tested.malloc(3 * kMiB, 1, true);
  REQUIRE(&tested.region_of(other) == &tested.region_of(got));
  REQUIRE(tested.free(got));
  CHECK(tested->budget().charges().sparse() == 8 * kMiB);
  CHECK(tested.unsound() == "");
  REQUIRE(tested.free(other));
  CHECK(tested->budget().charges().sparse() == 0);
  CHECK(tested.unsound() == "");
}

TEST_CASE("addresses of a sparse region that somebody still has registered are not used again") {
  struct Keeper : RegionObserver {
    void on_acquire(const Region&) noexcept override {}
    void on_fork_child() noexcept override {}
    bool has_let_go(const Region&) const noexcept override { return !keeps; }
    bool keeps = true;
  } keeper;
  TestHeap tested({"SPARSE_FROM=1M"});
  tested.boot();
  REQUIRE(ok(tested->publisher().attach(&keeper)));
  void* const kept = tested.malloc(8 * kMiB, 1, true);
  REQUIRE(tested.free(kept));
  void* const next = tested.malloc(8 * kMiB, 1, true);
  CHECK(next != kept);
  keeper.keeps = false;
  REQUIRE(tested.free(next));
  CHECK(tested.malloc(8 * kMiB, 1, true) == next);
  CHECK(tested.unsound() == "");
}

TEST_CASE("a large request that need not be zero, or is jemalloc's, is pinned like any other") {
  TestHeap tested({"SPARSE_FROM=1M"});
  tested.boot();
  CHECK(tested.region_of(tested.malloc(8 * kMiB)).kind == RegionKind::kPinned);
  CHECK(tested.region_of(tested.take(8 * kMiB)).kind == RegionKind::kPinned);
  CHECK(tested.region_of(tested.take_zeroed(8 * kMiB)).kind == RegionKind::kPinned);
}

TEST_CASE("sparse memory that cannot be discarded is zeroed by hand") {
  TestHeap tested({"SPARSE_FROM=1M"});
  tested.boot();
  auto* const got = static_cast<char*>(tested.malloc(2 * kMiB, 1, true));
  memset(got, 1, 2 * kMiB);
  fake::fail(Call::kDiscard, 1, Status::kUnsupported);
  REQUIRE(tested.resize(got, kMiB));
  CHECK(tested.malloc(kMiB, 1, true) == got + kMiB);
  CHECK(reads_zero(got + kMiB, kMiB));
}

TEST_CASE("foreign memory is refused, and so is what reaches beyond a region") {
  TestHeap tested;
  tested.boot();
  auto* got = static_cast<char*>(tested.take(64 * kKiB));
  REQUIRE(tested.last_region().length == 128 * kKiB);
  int local = 0;
  CHECK_FALSE(tested->extents().release(&local, kPage));
  CHECK_FALSE(tested->extents().release(got + 128 * kKiB, kPage));
  CHECK_FALSE(tested->extents().release(got + 124 * kKiB, 2 * kPage));
  CHECK_FALSE(tested->extents().release(got, SIZE_MAX));
  CHECK(tested.unsound().empty());
}

TEST_CASE("beyond the cap memory overflows, unpinned and in its own regions") {
  TestHeap tested({"CAP=1M"});
  tested.boot();
  std::vector<void*> all;
  for (int i = 0; i < 32; ++i) all.push_back(tested.take(64 * kKiB));
  CHECK(fake::locked() <= kMiB);
  CHECK(fake::locked() > kMiB - 64 * kKiB);  // less than one request is left
  CHECK(tested.region_of(all.back()).kind == RegionKind::kOverflow);
  CHECK_FALSE(tested.region_of(all.back()).locked);
  CHECK(tested.unsound().empty());
  // Free pinned memory comes before free overflow.
  REQUIRE(tested.give(all.back(), 64 * kKiB));
  REQUIRE(tested.give(all.front(), 64 * kKiB));
  CHECK(tested.take(64 * kKiB) == all.front());
  CHECK(tested.take(64 * kKiB) == all.back());
}

TEST_CASE("free overflow is handed out without a look at how much memory there is") {
  TestHeap tested({"CAP=0"});
  tested.boot();
  while (tested->budget().charges().held() < 64 * kMiB) REQUIRE(tested.take(kMiB) != nullptr);
  const size_t held = tested->budget().charges().held();
  const size_t looks = fake::machine().looks;
  void* const free = tested.take(kMiB / 4);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(tested.give(free, kMiB / 4));
    REQUIRE(tested.take(kMiB / 4) == free);
  }
  CHECK(tested->budget().charges().held() == held);
  CHECK(fake::machine().looks == looks);
  // Only new pages warrant one.
  while (tested->budget().charges().held() == held) REQUIRE(tested.take(kMiB) != nullptr);
  CHECK(fake::machine().looks == looks + 1);
}

TEST_CASE("memory that can be pinned again is, soon after it was refused") {
  TestHeap tested;
  fake::machine().available = 0;
  tested.boot();
  REQUIRE(tested.take(16 * kMiB) != nullptr);
  CHECK(tested.last_region().kind == RegionKind::kOverflow);
  fake::machine().available = 64 * kGiB;
  void* taken = nullptr;
  for (int tries = 0; tries < 1000 && (taken == nullptr || !tested.region_of(taken).locked);
       ++tries) {
    usleep(1000);
    taken = tested.take(kPage);
    REQUIRE(taken != nullptr);
  }
  CHECK(tested.region_of(taken).locked);
}

TEST_CASE("strict memory ends at the cap, and goes on when some is freed") {
  TestHeap tested({"CAP=1M", "STRICT=on"});
  tested.boot();
  std::vector<void*> all;
  while (void* got = tested.take(64 * kKiB)) all.push_back(got);
  CHECK(all.size() <= 16);
  CHECK(all.size() >= 14);  // regions end in pieces too small for a request
  CHECK(tested->budget().charges().overflow() == 0);
  REQUIRE(tested.give(all[7], 64 * kKiB));
  CHECK(tested.take(64 * kKiB) == all[7]);
  CHECK(tested.unsound().empty());
}

TEST_CASE("at the memory cap there is no memory, of any kind") {
  TestHeap tested({"CAP=1M", "MEMORY_CAP=2M", "SPARSE_FROM=64K"});
  tested.boot();
  size_t got = 0;
  while (tested.take(64 * kKiB) != nullptr) ++got;
  CHECK(got <= 32);
  CHECK(got >= 28);
  CHECK(tested.take_zeroed(64 * kKiB) == nullptr);
  CHECK(tested.unsound().empty());
}

TEST_CASE("when others use up the memlock limit the heap goes on without pins") {
  TestHeap tested;
  fake::machine().lock = {8 * kMiB, 8 * kMiB, false};
  fake::machine().locked_by_others = 8 * kMiB - 256 * kKiB;
  tested.boot();
  for (int i = 0; i < 64; ++i) REQUIRE(tested.take(64 * kKiB) != nullptr);
  CHECK(tested->budget().charges().pinned() <= 256 * kKiB);
  CHECK(tested->budget().pin_limit().limited_by() == LimitedBy::kMemlock);
  CHECK(tested.unsound() == "");
}

TEST_CASE("once the kernel refused to lock for no known reason, it is not asked again") {
  TestHeap tested;
  tested.boot();
  fake::fail_from(Call::kLock, 1, Status::kOutOfBudget);
  for (int i = 0; i < 64; ++i) REQUIRE(tested.take(64 * kKiB) != nullptr);
  CHECK(fake::calls(Call::kLock) == 2);  // with a spare step, and without
  CHECK(tested->budget().pin_limit().limited_by() == LimitedBy::kMemlock);
  CHECK(tested.unsound().empty());
}

TEST_CASE("a window with less than a step left gives what is needed") {
  TestHeap tested({"WINDOW=64M"});
  tested.boot();
  size_t got = 0;
  while (tested.take(512 * kKiB) != nullptr) got += 512 * kKiB;
  CHECK(got >= 32 * kMiB);
  const size_t left = tested->window().size() - tested->window().carved();
  CHECK(left < 512 * kKiB + kPage);
  CHECK(tested.unsound().empty());
}

TEST_CASE("regions are sealed when the option says so") {
  TestHeap tested({"SEAL=on"});
  tested.boot();
  const void* first = tested.take(kPage);
  CHECK(tested.region_of(first).sealed);
  CHECK(fake::range_of(first).sealed);
  fake::fail(Call::kSeal, 1, Status::kUnsupported);
  const void* second = tested.take(kMiB);
  CHECK_FALSE(tested.region_of(second).sealed);
  CHECK(tested.unsound().empty());
}

// Whether they came is for the report to find out, since pages come later than regions.
TEST_CASE("transparent huge pages are asked for") {
  TestHeap tested({"HUGE=thp"});
  tested.boot();
  CHECK(tested.region_of(tested.take(kPage)).page_kind ==
        os::PageKind::kBase);  // the region is too small
  const void* got = tested.take(4 * kMiB);
  CHECK(fake::range_of(got).kind == os::PageKind::kTransparentHuge);
  CHECK(tested.region_of(got).page_kind == os::PageKind::kTransparentHuge);
}

TEST_CASE("hugetlb pages are used while the pool has some, then base pages") {
  TestHeap tested({"HUGE=hugetlb", "SPARSE_FROM=1M"});
  fake::machine().huge_pages = 3;
  tested.boot();
  const void* first = tested.take(3 * kMiB);  // two huge pages
  CHECK(tested.last_region().length == 4 * kMiB);
  CHECK(tested.region_of(first).page_kind == os::PageKind::kHugetlb);
  const void* second = tested.take(4 * kMiB);
  CHECK(tested.region_of(second).page_kind == os::PageKind::kBase);
  CHECK(tested.region_of(second).locked);
  const void* sparse = tested.malloc(2 * kMiB, 1, true);
  CHECK(tested.region_of(sparse).page_kind == os::PageKind::kBase);
  CHECK(tested.unsound().empty());
}

TEST_CASE("huge pages do not make the heap exceed its cap") {
  TestHeap tested({"HUGE=hugetlb", "CAP=5M", "MEMORY_CAP=7M"});
  fake::machine().huge_pages = 100;
  tested.boot();
  while (tested.take(300 * kKiB) != nullptr) CHECK(tested.unsound().empty());
}

TEST_CASE("hugetlb pages that are gone when populated are replaced by base pages, placed again") {
  TestHeap tested({"HUGE=hugetlb"});
  fake::machine().huge_pages = 100;
  fake::machine().nodes = 2;
  tested.boot();
  fake::set_node(1);
  fake::fail(Call::kPopulate, 1);
  const void* got = tested.take(4 * kMiB);
  fake::set_node(0);
  REQUIRE(got != nullptr);
  CHECK(tested.region_of(got).page_kind == os::PageKind::kBase);
  CHECK(tested.region_of(got).locked);
  CHECK(fake::range_of(got).node == 1);
  CHECK(tested.unsound().empty());
}

TEST_CASE("a region is placed on the node of the thread that asks, before it is populated") {
  TestHeap tested;
  fake::machine().nodes = 4;
  tested.boot();
  for (const int node : {2, 0, 3, 2}) {
    fake::set_node(node);
    const void* got = tested.take(kPage);
    CHECK(tested.region_of(got).node == node);
    CHECK(fake::range_of(got).node == node);
  }
  fake::set_node(0);
  CHECK(tested->regions().size() == 3);
  CHECK(tested.unsound().empty());
}

TEST_CASE("another node's free memory comes before overflow") {
  TestHeap tested({"CAP=128K"});
  fake::machine().nodes = 2;
  tested.boot();
  fake::set_node(1);
  const void* first = tested.take(kPage);
  fake::set_node(0);
  const void* second = tested.take(kPage);
  CHECK(&tested.region_of(first) == &tested.region_of(second));
}

TEST_CASE("one node, or placement switched off, binds nothing") {
  TestHeap tested;
  const bool off = GENERATE(false, true);
  fake::machine().nodes = off ? 2 : 1;
  if (off) tested.set("NUMA=off");
  tested.boot();
  fake::set_node(off ? 1 : 0);
  CHECK(tested.region_of(tested.take(kPage)).node == 0);
  fake::set_node(0);
  CHECK(fake::calls(Call::kPreferNode) == 0);
}

TEST_CASE("the heap must grow for what no free extent holds, and only for that") {
  TestHeap tested({"GATHER=off"});
  tested.boot();
  CHECK(tested->extents().must_grow(kPage, kPage));
  void* got = tested.take(64 * kKiB);
  CHECK_FALSE(tested->extents().must_grow(64 * kKiB, kPage));
  CHECK(tested->extents().must_grow(64 * kKiB + kPage, kPage));
  CHECK(tested->extents().must_grow(kPage, kGiB));
  CHECK(tested->extents().must_grow(kMiB, kPage));
  REQUIRE(tested.free(tested.malloc(128 * kKiB)));
  tested->blocks().freed().drain(true);
  CHECK(tested->extents().must_grow(64 * kKiB + kPage,
                                    kPage));  // the free pages of blocks are no extent
  REQUIRE(tested.give(got, 64 * kKiB));
  CHECK_FALSE(tested->extents().must_grow(128 * kKiB, kPage));
  CHECK(tested->regions().size() == 2);
}

TEST_CASE("what arenas keep counts as free, and the peak is of what is live") {
  TestHeap tested;
  tested.boot();
  REQUIRE(tested.take(kMiB) != nullptr);
  const HeapCounters now = heap_counters(*tested, 256 * kKiB);
  CHECK(now.live == kMiB - 256 * kKiB);
  CHECK(now.peak_live == kMiB);
  CHECK(heap_counters(*tested, 2 * kMiB).live == 0);
}

TEST_CASE("the counters follow what happens") {
  TestHeap tested;
  tested.boot();
  void* got = tested.take(256 * kKiB);
  CHECK(heap_counters(*tested).live == 256 * kKiB);
  REQUIRE(tested.give(got, 256 * kKiB));
  const HeapCounters now = heap_counters(*tested);
  CHECK(now.live == 0);
  CHECK(now.peak_live == 256 * kKiB);
  CHECK(now.peak_held == tested->budget().charges().held());
  CHECK(now.free_extents == 1);
  CHECK(now.largest_free == tested.last_region().length);
  CHECK(now.metadata > 0);
  CHECK(now.metadata <= fake::metadata_bytes());
}

}  // namespace rdmalloc
