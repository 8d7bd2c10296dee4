// How many regions a large heap needs. Each region is one registration per domain, and devices have
// room for a limited number. The fake system calls provide addresses without pages, so the heaps
// here can have realistic sizes.
#include <vector>

#include "allocator/pages/heap.h"
#include "tests/support/catch.h"
#include "tests/support/rounds.h"
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

// As realloc(): in place, else by moving, else by allocating the new block and then freeing the
// old.
void grow(TestHeap& tested, void*& block, size_t to) {
  if (block != nullptr && tested.resize(block, to)) return;
  void* larger = block == nullptr ? nullptr : tested.move(block, to);
  if (larger == nullptr) {
    larger = tested.malloc(to);
    REQUIRE(larger != nullptr);
    if (block != nullptr) REQUIRE(tested.free(block));
  }
  block = larger;
}

void check_doubling(size_t arrays, size_t most_regions) {
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  std::vector<void*> blocks(arrays);
  for (size_t size = 64 * kKiB; size <= 16 * kGiB / arrays; size *= 2) {
    for (void*& block : blocks) grow(tested, block, size);
  }
  INFO(arrays << " arrays: " << tested->budget().charges().held() / kMiB << " MiB held");
  CHECK(heap_counters(*tested).regions < most_regions);
  CHECK(tested->budget().charges().held() >= 16 * kGiB);
  CHECK(tested.unsound().empty());
}

}  // namespace

TEST_CASE("one or two arrays that grow by doubling to 16 GiB take fewer than 64 regions") {
  if (!fake::needs_whole_window()) return;
  for (const size_t arrays : {1, 2}) check_doubling(arrays, kMostByDoubling);
}

// A moved block becomes a region of its own; regions of which it left parts stay.
TEST_CASE("many arrays that grow by moving to 16 GiB take some regions each, at the most") {
  if (!fake::needs_whole_window()) return;
  for (const size_t arrays : {size_t{16}, size_t{256}, test::rounds(4096)})
    check_doubling(arrays, kMostInSteps + 3 * arrays);
}

TEST_CASE("a million buffers take fewer than 100 regions, freed and taken again no more") {
  constexpr size_t kMostPages = 4;
  // Larger pages: as many as 16 GiB hold.
  const size_t kBuffers = std::min<size_t>(test::rounds(1'000'000), 16 * kGiB / (3 * kPage));
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  const auto size_of = [](size_t i) { return (i * 7 % kMostPages + 1) * kPage; };
  std::vector<void*> buffers(kBuffers);
  size_t regions = 0;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kBuffers; ++i) {
      // Not take(), which records every block.
      bool zero = false;
      buffers[i] = tested->extents().allocate(nullptr, size_of(i), kPage, &zero);
      if (buffers[i] == nullptr) FAIL("no memory for buffer " << i);
    }
    INFO(tested->regions().size() << " regions, " << tested->budget().charges().held() / kMiB
                                  << " MiB held");
    CHECK(tested->regions().size() < kMostInSteps);
    if (round == 0) regions = tested->regions().size();
    CHECK(tested->regions().size() == regions);
    for (size_t i = 0; i < kBuffers; ++i) {
      if (!tested->extents().release(buffers[i], size_of(i)))
        FAIL("buffer " << i << " was not taken back");
    }
  }
  CHECK(tested.unsound().empty());
}

}  // namespace rdmalloc
