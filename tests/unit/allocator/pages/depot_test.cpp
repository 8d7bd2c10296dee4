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

}  // namespace rdmalloc
