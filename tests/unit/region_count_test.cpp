// How many regions a large heap takes. Each is one registration in every domain, and devices have
// room for so many. The fake system calls give address space without pages, so that the heaps here
// can have the size they are about.
#include <vector>

#include "allocator/pages/heap.h"
#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {

using fake::kGiB;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

namespace {

constexpr size_t kMostByDoubling = 64;
constexpr size_t kMostInSteps = 100;

// realloc() of what cannot stay where it is: the new block first, then the old one goes.
void grow(TestHeap& tested, void*& block, size_t from, size_t to) {
  void* larger = tested.take(to);
  REQUIRE(larger != nullptr);
  if (block != nullptr) REQUIRE(tested.give(block, from));
  block = larger;
}

void check_doubling(size_t arrays, size_t most_regions) {
  TestHeap tested;
  tested.boot();
  std::vector<void*> blocks(arrays);
  for (size_t size = 64 * kKiB; size <= 16 * kGiB / arrays; size *= 2) {
    for (void*& block : blocks) grow(tested, block, size / 2, size);
  }
  INFO(arrays << " arrays: " << tested->budget().held() / kMiB << " MiB held");
  CHECK(tested->regions().size() < most_regions);
  CHECK(tested->budget().held() >= 16 * kGiB);
  CHECK(tested.unsound().empty());
}

}  // namespace

TEST_CASE("one or two arrays that grow by doubling to 16 GiB take fewer than 64 regions") {
  for (const size_t arrays : {1, 2}) check_doubling(arrays, kMostByDoubling);
}

// They share regions, whose number then is that of a heap grown in steps.
TEST_CASE("many arrays that grow by doubling to 16 GiB together take fewer than 100 regions") {
  for (const size_t arrays : {16, 256, 4096}) check_doubling(arrays, kMostInSteps);
}

TEST_CASE("a million buffers take fewer than 100 regions, freed and taken again no more") {
  constexpr size_t kBuffers = 1'000'000;
  constexpr size_t kMostPages = 4;
  TestHeap tested;
  tested.boot();
  const auto size_of = [](size_t i) { return (i * 7 % kMostPages + 1) * kPage; };
  std::vector<void*> buffers(kBuffers);
  size_t regions = 0;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kBuffers; ++i) {
      // Not take(), which writes each of them down.
      bool zero = false;
      buffers[i] = tested->allocate(nullptr, size_of(i), kPage, &zero);
      if (buffers[i] == nullptr) FAIL("no memory for buffer " << i);
    }
    INFO(tested->regions().size() << " regions, " << tested->budget().held() / kMiB << " MiB held");
    CHECK(tested->regions().size() < kMostInSteps);
    if (round == 0) regions = tested->regions().size();
    CHECK(tested->regions().size() == regions);
    for (size_t i = 0; i < kBuffers; ++i) {
      if (!tested->release(buffers[i], size_of(i))) FAIL("buffer " << i << " was not taken back");
    }
  }
  CHECK(tested.unsound().empty());
}

}  // namespace rdmalloc
