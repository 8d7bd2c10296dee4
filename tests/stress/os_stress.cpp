// The heap over the real system calls, with a small cap: several threads, and every page is
// written.
#include <stdlib.h>

#include <chrono>
#include <memory>

#include "allocator/pages/heap.h"
#include "allocator/pages/heap_counters.h"
#include "tests/support/catch.h"
#include "tests/support/churn.h"
#include "tests/support/heap_check.h"

namespace rdmalloc {
namespace {

std::unique_ptr<Heap> boot() {
  setenv("RDMALLOC_WINDOW", "2G", 1);
  setenv("RDMALLOC_CAP", "16M", 1);
  setenv("RDMALLOC_MEMORY_CAP", "96M", 1);
  setenv("RDMALLOC_SPARSE_FROM", "1M", 1);
  setenv("RDMALLOC_WARN", "off", 1);
  auto tested = std::make_unique<Heap>();
  tested->boot();
  return tested;
}

}  // namespace

TEST_CASE("threads on real memory keep the heap sound and each other's bytes intact") {
  const auto tested = boot();
  REQUIRE(tested->window().size() != 0);
  fake::churn(*tested, 3, std::chrono::seconds(4), [&tested] { return validate(*tested); });
  CHECK(validate(*tested));
  CHECK(heap_counters(*tested).live == 0);
  CHECK(tested->budget().charges().pinned() <= size_t{16} << 20);
  CHECK(tested->budget().charges().held() <= size_t{96} << 20);
}

TEST_CASE("hugetlb and transparent huge pages fall back where there are none") {
  setenv("RDMALLOC_HUGE", GENERATE("hugetlb", "thp"), 1);
  const auto tested = boot();
  fake::churn(*tested, 2, std::chrono::seconds(1), [&tested] { return validate(*tested); });
  CHECK(validate(*tested));
  CHECK(heap_counters(*tested).live == 0);
  CHECK(tested->regions().size() > 0);
  unsetenv("RDMALLOC_HUGE");
}

}  // namespace rdmalloc
