// Every system call fails once, at every point of a run: the heap must stay sound, return memory or
// null, and recover when the fault is over.
#include <string.h>

#include <random>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/rounds.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::Call;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

struct Extent {
  void* address;
  size_t size;
};

// Some hundred requests of all kinds, with a soundness check after each. Returns how many
// succeeded.
size_t run(TestHeap& tested, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Extent> live;
  size_t served = 0;
  for (size_t step = 0; step < test::rounds(100); ++step) {
    fake::set_node(static_cast<int>(random() % 2));
    if (random() % 3 == 0 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      REQUIRE(tested.give(live.back().address, live.back().size));
      live.pop_back();
    } else {
      const size_t size = (1 + random() % (random() % 4 == 0 ? 1024 : 32)) * kPage;
      const bool wants_zero = random() % 3 == 0;
      bool zero = wants_zero;
      void* got = tested.take(size, random() % 8 == 0 ? 4 * kMiB : kPage, &zero);
      if (got != nullptr) {
        ++served;
        if (wants_zero) REQUIRE(zero);
        if (zero) REQUIRE(fake::reads_zero(got, kPage));
        memset(got, 1, kPage);
        live.push_back({got, size});
      }
    }
    REQUIRE(tested.unsound() == "");
  }
  fake::set_node(0);
  return served;
}

struct Setting {
  const char* name;
  std::initializer_list<const char*> options;
};

// Small windows, because there are thousands: an emulator of programs makes a record of each page.
const Setting kSettings[] = {
    {"plain", {"WINDOW=512M", "SPARSE_FROM=1M"}},
    {"tight", {"WINDOW=512M", "CAP=4M", "MEMORY_CAP=48M", "SPARSE_FROM=1M", "HUGE=thp"}},
    {"strict", {"WINDOW=512M", "CAP=64M", "STRICT=on", "SEAL=on"}},
    {"hugetlb", {"WINDOW=512M", "HUGE=hugetlb", "SPARSE_FROM=512K"}},
    {"hugetlb strict", {"WINDOW=512M", "HUGE=hugetlb", "STRICT=on", "SEAL=on"}},
};

void prepare_machine() {
  fake::machine().nodes = 2;
  fake::machine().huge_pages = 20;
}

}  // namespace

TEST_CASE("one failing call, whichever it is, leaves a sound heap that goes on") {
  for (const Setting& setting : kSettings) {
    for (size_t call = 0; call < fake::kCalls; ++call) {
      const auto which = static_cast<Call>(call);
      for (const Status status : {Status::kNoMemory, Status::kOutOfBudget}) {
        for (size_t k = 1;; ++k) {
          INFO(setting.name << ": " << fake::name(which) << " fails at call " << k);
          TestHeap tested(setting.options);
          prepare_machine();
          fake::fail(which, k, status);
          tested.boot();
          (void)run(tested, 1);
          const bool reached = fake::calls(which) >= k;
          fake::fail_nothing();
          // Without any window the hooks bypass the heap.
          if (tested->window().size() != 0 && reached) {
            void* got = tested.take(kPage);
            if (setting.options.size() < 3) REQUIRE(got != nullptr);
          }
          REQUIRE(tested.unsound() == "");
          if (!reached) break;
        }
      }
    }
  }
}

TEST_CASE("a call that fails for ever leaves a sound heap") {
  for (const Setting& setting : kSettings) {
    for (size_t call = 0; call < fake::kCalls; ++call) {
      const auto which = static_cast<Call>(call);
      for (const size_t k : {1, 2, 3, 5}) {
        INFO(setting.name << ": " << fake::name(which) << " fails from call " << k);
        TestHeap tested(setting.options);
        prepare_machine();
        fake::fail_from(which, k);
        tested.boot();
        const size_t served = run(tested, 2);
        // malloc can do without locks and placement.
        if (which == Call::kSeal || which == Call::kPreferNode) REQUIRE(served > 0);
      }
    }
  }
}

TEST_CASE("without memory for its table the heap has no window and says so with null") {
  TestHeap tested;
  fake::fail(Call::kMapMetadata, 1);
  tested.boot();
  CHECK(tested->booted());
  CHECK(tested->window().size() == 0);
  CHECK(tested.take(kPage) == nullptr);
  int local = 0;
  CHECK(tested->regions().find(&local) == nullptr);
  CHECK_FALSE(tested->extents().release(&local, kPage));
  CHECK(validate(*tested));
}

TEST_CASE("without address space the heap has no window and says so with null") {
  TestHeap tested;
  fake::fail_from(Call::kReserve, 1);
  tested.boot();
  CHECK(tested.take(kPage) == nullptr);
  CHECK(tested->regions().find(&tested) == nullptr);
  CHECK(validate(*tested));
}

TEST_CASE("a region that cannot be recorded is given back, not lost") {
  TestHeap tested;
  tested.boot();
  fake::fail_from(Call::kMapMetadata, 1);
  CHECK(tested.take(kPage) == nullptr);
  CHECK(tested.malloc(kMiB) == nullptr);
  CHECK(tested->budget().charges().held() == 0);
  CHECK(tested.opened() == 0);
  fake::fail_nothing();
  CHECK(tested.take(kPage) != nullptr);
  CHECK(tested.unsound() == "");
}

TEST_CASE("an extent without a record for it stays with the caller") {
  TestHeap tested;
  tested.boot();
  const size_t size = 8192 * kPage;
  auto* all = static_cast<char*>(tested.take(size));
  REQUIRE(all != nullptr);
  fake::fail_from(Call::kMapMetadata, 1);
  size_t offset = 0;
  while (offset < size && tested->extents().release(all + offset, kPage)) offset += 2 * kPage;
  REQUIRE(offset < size);  // refused for lack of a record
  CHECK(tested.unsound() == "");
  fake::fail_nothing();
  CHECK(tested->extents().release(all + offset, kPage));
  CHECK(tested.unsound() == "");
}

TEST_CASE("a reopened range that cannot be had is not handed out") {
  TestHeap tested({"HUGE=hugetlb"});
  fake::machine().huge_pages = 20;
  tested.boot();
  fake::fail(Call::kPopulate, 1);
  fake::fail_from(Call::kOpen, 2);
  void* got = tested.take(4 * kMiB);
  CHECK(got == nullptr);
  CHECK(tested.unsound() == "");
  fake::fail_nothing();
  CHECK(tested.take(4 * kMiB) != nullptr);
}

}  // namespace rdmalloc
