// How the UCX shim answers a query: the mapped range, derived from what UCX says of the region
// around it.
#include "regcache/preload/ucx/mappings.h"

#include <memory>
#include <thread>

#include "tests/support/catch.h"

namespace rdmalloc {
namespace {

constexpr size_t kRegion = size_t{1} << 20;
constexpr size_t kMany = 1000;  // more than the table holds

// A table, the memory of one region, and UCX's handle for all of it.
struct Fixture {
  void map(size_t offset, size_t length, unsigned flags = 0) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.address = region.get() + offset;
    params.length = length;
    params.flags = flags;
    table.note(handle, params);
  }
  // Whether a query returns exactly that part of the region.
  bool says(size_t offset, size_t length) {
    ucp_mem_attr_t range{};
    range.address = region.get();
    range.length = kRegion;
    table.narrow(handle, &range);
    return range.address == region.get() + offset && range.length == length;
  }

  std::unique_ptr<char[]> region{new char[kRegion]};
  ucp_mem_h handle = reinterpret_cast<ucp_mem_h>(region.get());
  shim::MappingTable table;
};

}  // namespace

TEST_CASE("a handle of unknown memory is UCX's own") {
  Fixture test;
  CHECK(test.says(0, kRegion));
}

TEST_CASE("what a thread mapped last under a handle is what it hears") {
  Fixture test;
  test.map(4096, 100);
  CHECK(test.says(4096, 100));
  test.map(8192, kRegion - 8192);
  CHECK(test.says(8192, kRegion - 8192));
}

TEST_CASE("a thread hears of its own mapping before another's, and else of the other's") {
  Fixture test;
  test.map(4096, 100);
  std::thread([&] {
    CHECK(test.says(4096, 100));
    test.map(8192, 200);
    CHECK(test.says(8192, 200));
  }).join();
  CHECK(test.says(4096, 100));
}

TEST_CASE("a handle that came again for other memory, or for UCX's own, is what UCX says") {
  Fixture test;
  test.map(kRegion - 100, 200);  // outside what the handle covers now
  CHECK(test.says(0, kRegion));
  test.map(4096, 100);
  test.map(0, kRegion, UCP_MEM_MAP_ALLOCATE);
  CHECK(test.says(0, kRegion));
}

TEST_CASE("of many mappings the oldest are forgotten") {
  Fixture test;
  test.map(4096, 100);
  const ucp_mem_h first = test.handle;
  for (size_t i = 1; i <= kMany; ++i) {
    test.handle = reinterpret_cast<ucp_mem_h>(test.region.get() + i);
    test.map(i, i);
    CHECK(test.says(i, i));
  }
  test.handle = first;
  CHECK(test.says(0, kRegion));
}

}  // namespace rdmalloc
