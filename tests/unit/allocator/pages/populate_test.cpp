// When pages come: on touch, just before use, or at once.
#include "allocator/pages/populate.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/fake_region_source.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::Call;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

struct Device : RegionObserver {
  void on_acquire(const Region&) noexcept override {}
  void on_fork_child() noexcept override {}
  bool wants_pages(const Region&) const noexcept override { return wants; }
  void on_ready(const Region& region) noexcept override {
    ready_populated += region.populated ? 1 : 0;
  }
  bool wants = true;
  size_t ready_populated = 0;
};

size_t populated_bytes(const Region& region) {
  size_t bytes = 0;
  for (const fake::Range& range :
       fake::ranges_in(reinterpret_cast<void*>(region.base), region.length)) {
    bytes += range.populated ? range.bytes : 0;
  }
  return bytes;
}

bool is_populated(TestHeap& tested, const void* address) {
  const Region& region = tested.region_of(address);
  const size_t bytes = populated_bytes(region);
  CHECK((bytes == 0 || bytes == region.length));
  CHECK(region.populated == (bytes != 0));
  return bytes != 0;
}

}  // namespace

TEST_CASE("by default pages come by touch, but the first ones at once") {
  for (const char* choice : {"POPULATE=auto", "POPULATE=touch"}) {
    TestHeap tested({choice, "GATHER=off"});
    tested.boot();
    const Region& first = tested.region_of(tested.take(kPage));
    CHECK(populated_bytes(first) == 32 * 1024);
    CHECK(first.locked);
    CHECK_FALSE(first.populated);
    CHECK_FALSE(is_populated(tested, tested.take(first.length)));
    CHECK_FALSE(is_populated(tested, tested.take(8 * kMiB)));
    const void* block = tested.malloc(kMiB);
    CHECK_FALSE(is_populated(tested, block));
    CHECK(tested.region_of(block).locked);
    CHECK_FALSE(is_populated(tested, tested.malloc_exposed(kMiB)));
  }
}

TEST_CASE("all pinned pages come at once where that was asked for, no others") {
  TestHeap tested({"POPULATE=now", "CAP=64M", "SPARSE_FROM=128M"});
  tested.boot();
  CHECK(is_populated(tested, tested.take(8 * kMiB)));
  CHECK(is_populated(tested, tested.malloc(kMiB)));
  CHECK(is_populated(tested, tested.malloc_exposed(kMiB)));
  const void* overflow = tested.malloc(100 * kMiB);
  REQUIRE(tested.region_of(overflow).kind == RegionKind::kOverflow);
  CHECK_FALSE(is_populated(tested, overflow));
  CHECK_FALSE(is_populated(tested, tested.malloc(128 * kMiB, 1, true)));
}

TEST_CASE("an observer that will use all pages has them before it hears that they are ready") {
  Device device;
  device.wants = GENERATE(true, false);
  const bool touch = GENERATE(true, false);
  TestHeap tested;
  if (touch) tested.set("POPULATE=touch");
  tested.boot();
  REQUIRE(ok(tested->publisher().attach(&device)));
  const bool expected = device.wants && !touch;
  CHECK(is_populated(tested, tested.malloc(kMiB)) == expected);
  CHECK(is_populated(tested, tested.take(8 * kMiB)) == expected);
  CHECK(device.ready_populated == (expected ? 2 : 0));
}

TEST_CASE("a reserve has all its pages before the program starts") {
  TestHeap tested;
  tested.boot();
  Message why;
  REQUIRE(tested->growth().reserve(64 * kMiB, &why));
  CHECK(is_populated(tested, reinterpret_cast<void*>(tested.last_region().base)));
  CHECK(tested.last_region().length == 64 * kMiB);
  CHECK(tested.unsound() == "");
}

TEST_CASE("pages come in steps, once for each region, and around what was retired") {
  fake::RegionSource source;
  const Region& region = source.acquire(100 * kMiB);
  REQUIRE(source.retire(region, 3 * kPage, kPage));
  REQUIRE(source.retire(region, 20 * kMiB, 15 * kMiB));
  REQUIRE(source.retire(region, 99 * kMiB, kMiB));
  HugePageWatch huge;
  Budget budget;
  CHECK(populate_in_steps(region, PagesFor::kNow, *source.marks(), budget, huge));
  size_t populated = 0;
  for (const fake::Range& range : fake::ranges()) {
    if (!range.populated) continue;
    populated += range.bytes;
    CHECK(range.bytes <= 2 * kMiB);
    CHECK_FALSE(source.marks()->is_retired(range.base, range.bytes));
  }
  CHECK(populated == region.length - region.retired());
  const size_t calls = fake::calls(Call::kPopulate);
  CHECK(calls < 50);
  CHECK(populate_in_steps(region, PagesFor::kNow, *source.marks(), budget, huge));
  CHECK(fake::calls(Call::kPopulate) == calls);
  CHECK(fake::violations().empty());
}

TEST_CASE("steps are small where little is left, and none where nothing is") {
  fake::RegionSource source;
  constexpr size_t kReserve = 16 * kMiB;  // the budget's
  const Region& region = source.acquire(40 * kMiB);
  const auto populated = [] {
    size_t bytes = 0;
    for (const fake::Range& range : fake::ranges()) bytes += range.populated ? range.bytes : 0;
    return bytes;
  };
  HugePageWatch huge;
  Budget budget;
  const auto populate = [&](PagesFor who) {
    return populate_in_steps(region, who, *source.marks(), budget, huge);
  };
  const PagesFor who = GENERATE(PagesFor::kLater, PagesFor::kNow);
  fake::machine().available = kReserve + kMiB;
  CHECK_FALSE(populate(who));
  CHECK(populated() == 0);
  CHECK_FALSE(region.populated);
  // This many processes may check at the same time.
  fake::machine().available = kReserve + 16 * kMiB;
  CHECK(populate(who));
  CHECK(populated() == region.length);
  CHECK(fake::calls(Call::kPopulate) == 40);
  CHECK(region.populated);
}

TEST_CASE("what has come already needs no room") {
  fake::RegionSource source;
  const Region& region = source.acquire(40 * kMiB);
  HugePageWatch huge;
  Budget budget;
  fake::machine().available = 0;
  memset(reinterpret_cast<void*>(region.base), 1, region.length - kPage);
  CHECK_FALSE(populate_in_steps(region, PagesFor::kNow, *source.marks(), budget, huge));
  memset(reinterpret_cast<void*>(region.base), 1, region.length);
  CHECK(populate_in_steps(region, PagesFor::kNow, *source.marks(), budget, huge));
  CHECK(fake::calls(Call::kPopulate) == 0);
}

TEST_CASE("pages that cannot come now come by touch, and the heap goes on") {
  TestHeap tested({"POPULATE=now"});
  tested.boot();
  fake::fail_from(Call::kPopulate, 1);
  CHECK(tested.malloc(64 * kMiB) != nullptr);
  CHECK(tested.take(kPage) != nullptr);
  CHECK(tested.unsound() == "");
}

}  // namespace rdmalloc
