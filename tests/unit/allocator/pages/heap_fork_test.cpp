
#include <atomic>
#include <thread>

#include "allocator/fork.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

}  // namespace

TEST_CASE("after a fork the child's heap is whole, and none of it is pinned") {
  TestHeap tested({"GATHER=always"});  // a heap this small would otherwise grow instead
  tested.boot();
  void* got = tested.take(kMiB);
  before_fork(*tested);
  after_fork_in_child(*tested);
  CHECK(tested->forked());
  CHECK(tested->budget().charges().pinned() == 0);
  CHECK_FALSE(tested.region_of(got).locked);
  CHECK(validate(*tested));
  // New memory may be pinned, on the child's own account.
  const void* more = tested.take(8 * kMiB);
  CHECK(tested.region_of(more).locked);
  const size_t pinned = tested.region_of(more).length;
  CHECK(tested->budget().charges().pinned() == pinned);
  REQUIRE(tested.give(got, kMiB));
  CHECK(validate(*tested));
  // Pages that the parent left free are gathered apart from those that the child has locked.
  const void* gathered = tested.take(2 * kMiB);
  CHECK(heap_counters(*tested).gathered == kMiB);
  CHECK_FALSE(tested.region_of(gathered).locked);
  CHECK(tested->budget().charges().pinned() == pinned);
  CHECK(validate(*tested));
}

TEST_CASE("after a fork the parent's heap is as it was") {
  TestHeap tested;
  tested.boot();
  const void* got = tested.take(kMiB);
  const size_t pinned = tested->budget().charges().pinned();
  before_fork(*tested);
  after_fork_in_parent(*tested);
  CHECK_FALSE(tested->forked());
  CHECK(tested->budget().charges().pinned() == pinned);
  CHECK(tested.region_of(got).locked);
  CHECK(tested.unsound().empty());
}

TEST_CASE("a process that forks while threads allocate has children that can allocate") {
  fake::reset();
  fake::environment() = {"RDMALLOC_WINDOW=4G", "RDMALLOC_CAP=64M"};
  heap.boot();
  register_fork_handlers();
  std::atomic<bool> stop{false};
  std::thread busy([&stop] {
    bool zero = false;
    for (size_t i = 0; !stop; ++i) {
      const size_t size = (1 + i % 40) * kPage;
      void* got = heap.extents().allocate(nullptr, size, kPage, &zero);
      if (got != nullptr) (void)heap.extents().release(got, size);
    }
  });
  const auto child_works = [] {
    bool zero = true;
    void* small = heap.extents().allocate(nullptr, kPage, kPage, &zero);
    void* large = heap.extents().allocate(nullptr, 3 * kMiB, kPage, &zero);
    return small != nullptr && large != nullptr && heap.forked() &&
           heap.extents().release(small, kPage) && heap.extents().release(large, 3 * kMiB) &&
           validate(heap);
  };
  bool all = true;
  for (int i = 0; i < 20; ++i) all = all && test::run_child(child_works).exited_well();
  stop = true;
  busy.join();
  CHECK(all);
  CHECK_FALSE(heap.forked());
  CHECK(validate(heap));
}

}  // namespace rdmalloc
