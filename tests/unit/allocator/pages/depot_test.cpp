#include "allocator/pages/depot.h"

#include "allocator/os/memory.h"
#include "tests/support/catch.h"

namespace rdmalloc {

TEST_CASE("whoever wants a longer run than a depot has does not wait for its lock") {
  const size_t page = os::page_size();
  const Window window;
  const RegionTable regions(window);
  LiveBytes::Sum live{6 * page};
  const uintptr_t base = size_t{1} << 30;
  Depot depot;
  for (const uintptr_t run : {base, base + 8 * page}) {
    REQUIRE(ok(depot.give(reinterpret_cast<void*>(run), 3 * page, &live)));
  }
  CHECK(depot.free_bytes() == 6 * page);
  CHECK(depot.largest() == 3 * page);
  depot.lock();
  CHECK_FALSE(depot.take(regions, 4 * page, page, &live));
  CHECK_FALSE(depot.has(4 * page, page));
  depot.unlock();
  CHECK(depot.has(3 * page, page));
  size_t size = 0;
  CHECK(depot.take_largest(page, 8 * page, &size) != nullptr);
  CHECK(depot.take_largest(page, 8 * page, &size) != nullptr);
  CHECK(depot.largest() == 0);
}

TEST_CASE("what is given back in exchange may be part of what is taken") {
  const size_t page = os::page_size();
  Window window;
  RegionTable regions{window};
  REQUIRE(ok(window.reserve(Window::kSmallest)));
  REQUIRE(ok(regions.boot()));
  Region region;
  region.length = 8 * page;
  region.base = reinterpret_cast<uintptr_t>(window.carve(region.length));
  const uintptr_t base = region.base;
  REQUIRE(regions.cover(region));
  regions.add(region, RegionTable::kNoSlot);
  LiveBytes::Sum live{8 * page};
  Depot depot;
  const auto at = [&](size_t number) { return reinterpret_cast<void*>(base + number * page); };
  REQUIRE(ok(depot.give(at(0), 2 * page, &live)));
  Taken taken;
  CHECK(ok(depot.exchange(at(2), 2 * page, regions, 3 * page, page, &live, &taken)));
  CHECK(taken.address == at(0));
  CHECK(live == 7 * page);
  CHECK(depot.free_bytes() == page);
  Taken none;
  CHECK(ok(depot.exchange(at(4), page, regions, 3 * page, page, &live, &none)));
  CHECK_FALSE(none);
  CHECK(live == 6 * page);
  CHECK(depot.largest() == 2 * page);
}

}  // namespace rdmalloc
