// Several threads on one heap over the fake system calls: extents never overlap, and the books stay
// consistent.
#include <string.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/churn.h"
#include "tests/support/saboteur.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::churn;
using fake::TestHeap;

}  // namespace

TEST_CASE("threads that take and release keep the heap sound") {
  TestHeap tested({"CAP=64M", "MEMORY_CAP=256M", "SPARSE_FROM=1M"});
  fake::machine().nodes = 2;
  tested.boot();
  fake::stop_pretending();
  churn(*tested, 3, std::chrono::seconds(3), [&tested] { return validate(*tested); });
  CHECK(tested.unsound() == "");
  CHECK(heap_counters(*tested).live == 0);
}

TEST_CASE("threads keep the heap sound while system calls fail") {
  TestHeap tested({"CAP=32M", "MEMORY_CAP=128M", "SPARSE_FROM=1M", "HUGE=hugetlb"});
  fake::machine().huge_pages = 8;
  tested.boot();
  fake::stop_pretending();
  {
    const fake::Saboteur saboteur;
    churn(*tested, 3, std::chrono::seconds(3), [&tested] { return validate(*tested); });
  }
  CHECK(tested.unsound() == "");
}

TEST_CASE("an observer that comes while threads allocate hears of every region once") {
  class Counter final : public RegionObserver {
   public:
    void on_acquire(const Region&) noexcept override { ++count; }
    void on_retire(const Region&) noexcept override { --count; }
    void on_fork_child() noexcept override {}
    std::atomic<size_t> count{0};
  };
  TestHeap tested({"MEMORY_CAP=256M"});
  tested.boot();
  fake::stop_pretending();
  std::vector<Counter> observers(4);
  std::atomic<size_t> attached{0};
  churn(*tested, 2, std::chrono::seconds(1), [&] {
    if (attached < observers.size() && ok(tested->publisher().attach(&observers[attached])))
      ++attached;
    return true;
  });
  REQUIRE(attached == observers.size());
  for (const Counter& observer : observers) {
    CHECK(observer.count == heap_counters(*tested).regions);
  }
}

}  // namespace rdmalloc
