#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

class Recorder final : public RegionObserver {
 public:
  void on_acquire(const Region& region) noexcept override { seen.push_back(&region); }
  void on_fork_child() noexcept override { ++forks; }

  std::vector<const Region*> seen;
  int forks = 0;
};

std::vector<const Region*> all_regions(TestHeap& tested) {
  std::vector<const Region*> all;
  for (size_t i = 0; i < tested->regions().size(); ++i) all.push_back(&tested->regions()[i]);
  return all;
}

}  // namespace

TEST_CASE("a late observer is told of every region there is, in order, and then of new ones") {
  TestHeap tested;
  tested.boot();
  Recorder early;
  REQUIRE(ok(tested->publisher().attach(&early)));
  for (int i = 0; i < 5; ++i) REQUIRE(tested.take(kMiB) != nullptr);
  Recorder late;
  REQUIRE(ok(tested->publisher().attach(&late)));
  CHECK(late.seen == all_regions(tested));
  REQUIRE(tested.take(64 * kMiB) != nullptr);
  CHECK(early.seen == all_regions(tested));
  CHECK(late.seen == all_regions(tested));
  CHECK(late.seen.size() >= 3);
}

TEST_CASE("an observer sees a region as it is for good") {
  class Checker : public RegionObserver {
   public:
    void on_acquire(const Region& region) noexcept override {
      const fake::Range range = fake::range_of(reinterpret_cast<void*>(region.base));
      good = good && range.bytes == region.length && range.locked == region.locked &&
             range.node == (region.locked ? region.node : range.node) &&
             range.sealed == region.sealed && !range.populated;
    }
    // Its pages come later, under no lock, before it is ready for whoever registers it.
    void on_ready(const Region& region) noexcept override {
      size_t bytes = 0;
      for (const fake::Range& range :
           fake::ranges_in(reinterpret_cast<void*>(region.base), region.length)) {
        good = good && range.populated;
        bytes += range.bytes;
      }
      good = good && bytes == region.length && region.populated;
      ++ready;
    }
    bool wants_pages(const Region&) const noexcept override { return true; }
    void on_fork_child() noexcept override {}
    bool good = true;
    size_t ready = 0;
  };
  TestHeap tested({"SEAL=on"});
  fake::machine().nodes = 2;
  tested.boot();
  Checker checker;
  REQUIRE(ok(tested->publisher().attach(&checker)));
  REQUIRE(tested.take(kPage) != nullptr);
  REQUIRE(tested.take(4 * kMiB) != nullptr);
  CHECK(checker.good);
  CHECK(checker.ready == tested->regions().size());
}

TEST_CASE("observers are not told of a failed acquisition") {
  TestHeap tested({"STRICT=on"});
  tested.boot();
  Recorder observer;
  REQUIRE(ok(tested->publisher().attach(&observer)));
  fake::fail_from(GENERATE(fake::Call::kOpen, fake::Call::kLock), 1);
  CHECK(tested.take(kPage) == nullptr);
  CHECK(observer.seen.empty());
  CHECK(tested.unsound() == "");
}

TEST_CASE("an observer that is attached twice is told of each region once") {
  TestHeap tested;
  tested.boot();
  REQUIRE(tested.take(kPage) != nullptr);
  Recorder observer;
  REQUIRE(ok(tested->publisher().attach(&observer)));
  REQUIRE(ok(tested->publisher().attach(&observer)));
  REQUIRE(tested.take(64 * kMiB) != nullptr);
  CHECK(observer.seen == all_regions(tested));
}

TEST_CASE("one observer too many is refused, and told nothing") {
  TestHeap tested;
  tested.boot();
  REQUIRE(tested.take(kPage) != nullptr);
  std::vector<Recorder> some(8);
  for (Recorder& observer : some) REQUIRE(ok(tested->publisher().attach(&observer)));
  Recorder last;
  CHECK(tested->publisher().attach(&last) == Status::kNoMemory);
  CHECK(last.seen.empty());
}

TEST_CASE("observers hear of a fork in the child, and not in the parent") {
  TestHeap tested;
  tested.boot();
  Recorder observer;
  REQUIRE(ok(tested->publisher().attach(&observer)));
  before_fork(*tested);
  after_fork_in_parent(*tested);
  CHECK(observer.forks == 0);
  before_fork(*tested);
  after_fork_in_child(*tested);
  CHECK(observer.forks == 1);
}

}  // namespace rdmalloc
