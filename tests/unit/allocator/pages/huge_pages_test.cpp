// Huge pages by default: which regions get them, and what makes the heap fall back to base pages.
#include "allocator/pages/huge_pages.h"

#include <string.h>

#include <string>
#include <vector>

#include "allocator/limits/options.h"
#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::kGiB;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

constexpr size_t kHuge = 2 * kMiB;
constexpr uint64_t kBaseNs = 300'000;  // per MiB

using Finding = HugePageWatch::Finding;

struct Watch {
  HugePageWatch huge;
  explicit Watch(uint64_t choice = kHugeAuto) {
    huge.boot(choice);
    huge.note(os::PageKind::kBase, 128 * kKiB, kBaseNs / 8, 32);
  }
  void note(uint64_t ns_for_a_mib, size_t faults, size_t bytes = kHuge) {
    huge.note(os::PageKind::kTransparentHuge, bytes, ns_for_a_mib * (bytes / kMiB), faults);
  }
};

// A program that writes to the whole block, or only to its first page.
void* take(TestHeap& tested, size_t size, size_t touched) {
  void* const block = tested.malloc(size);
  REQUIRE(block != nullptr);
  memset(block, 1, touched);
  return block;
}

bool is_huge(TestHeap& tested, const void* block) {
  return tested.region_of(block).page_kind == os::PageKind::kTransparentHuge;
}

// Bytes of a region for which huge pages were requested.
size_t asked_for(TestHeap& tested, const void* block) {
  const Region& region = tested.region_of(block);
  size_t bytes = 0;
  for (const fake::Range& range :
       fake::ranges_in(reinterpret_cast<void*>(region.base), region.length)) {
    bytes += range.kind == os::PageKind::kTransparentHuge ? range.bytes : 0;
  }
  return bytes;
}

}  // namespace

TEST_CASE("huge pages are kept while they take less time than base pages for as many bytes") {
  Watch watch;
  CHECK(watch.huge.is_on_trial());
  watch.note(kBaseNs / 5, 1);
  CHECK(watch.huge.is_on_trial());
  watch.note(kBaseNs / 5, 1);
  CHECK(watch.huge.finding() == Finding::kFaster);
  CHECK(watch.huge.is_on());
  watch.note(kBaseNs / 5, 8, 16 * kMiB);
  CHECK(watch.huge.finding() == Finding::kFaster);
}

TEST_CASE("the heap goes back to base pages when huge ones take longer, at first or later") {
  for (const int good : {0, 2, 40}) {
    Watch watch;
    for (int i = 0; i < good; ++i) watch.note(kBaseNs / 5, 1);
    for (int i = 0; i < 40; ++i) watch.note(kBaseNs * 6, 1);
    CHECK(watch.huge.finding() == Finding::kSlower);
    CHECK(watch.huge.has_gone_back());
    CHECK(std::string(watch.huge.text()).find("took longer") != std::string::npos);
    watch.note(kBaseNs / 5, 1);
    CHECK(watch.huge.has_gone_back());
  }
}

TEST_CASE("the heap goes back to base pages when those come though huge ones were asked for") {
  Watch watch;
  watch.note(kBaseNs, kHuge / kPage);
  CHECK(watch.huge.finding() == Finding::kMissing);
  CHECK(std::string(watch.huge.text()).find("there are no huge ones") != std::string::npos);
}

TEST_CASE("pages that were there before say nothing about huge pages") {
  Watch watch;
  for (int i = 0; i < 40; ++i) {
    watch.note(1, 0);
    watch.note(kBaseNs * 9, 1, 16 * kMiB);
  }
  CHECK(watch.huge.finding() == Finding::kNone);
}

TEST_CASE("nothing is watched when the user has chosen a page kind") {
  for (const uint64_t choice : {kHugeOff, kHugeThp, kHugeHugetlb}) {
    Watch watch(choice);
    for (int i = 0; i < 40; ++i) watch.note(kBaseNs * 9, 1);
    CHECK_FALSE(watch.huge.has_gone_back());
    CHECK_FALSE(watch.huge.is_on_trial());
  }
}

TEST_CASE("a small process stays on base pages") {
  for (const char* populate : {"POPULATE=auto", "POPULATE=now"}) {
    TestHeap tested({populate});
    tested.boot();
    (void)tested.take(kPage);
    for (int i = 0; i < 40; ++i) CHECK_FALSE(is_huge(tested, take(tested, kMiB, kMiB)));
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("a large region whose pages come at once has huge pages") {
  TestHeap tested({"POPULATE=now"});
  tested.boot();
  fake::machine().base_takes_us = 5000;  // also if the thread is delayed
  (void)tested.take(kPage);
  const void* block = tested.malloc(200 * kMiB);
  CHECK(is_huge(tested, block));
  CHECK(tested.region_of(block).length % kHuge == 0);
  CHECK(tested->populator().huge_pages().watch().finding() == Finding::kFaster);
  CHECK(tested.unsound() == "");
}

TEST_CASE("huge pages as large as with base pages of 64 KiB are not used by themselves") {
  TestHeap tested({"POPULATE=now"});
  fake::machine().huge_page = 512 * kMiB;
  fake::machine().base_takes_us = 500;
  tested.boot();
  (void)tested.take(kPage);
  CHECK_FALSE(is_huge(tested, tested.malloc(600 * kMiB)));
  CHECK(tested->populator().huge_pages().watch().finding() == Finding::kTooLarge);
  CHECK(std::string(tested->populator().huge_pages().watch().text()).find("too large") !=
        std::string::npos);
  CHECK(tested.unsound() == "");
}

TEST_CASE("a heap of less than 32 huge pages has none of them") {
  constexpr size_t kLarger = 4 * kMiB;
  TestHeap tested({"POPULATE=now"});
  fake::machine().huge_page = kLarger;
  fake::machine().base_takes_us = 5000;
  tested.boot();
  (void)tested.take(kPage);
  CHECK_FALSE(is_huge(tested, tested.malloc(70 * kMiB)));
  const void* const block = tested.malloc(70 * kMiB);
  CHECK(is_huge(tested, block));
  CHECK(tested.region_of(block).base % kLarger == 0);
  CHECK(tested.region_of(block).length % kLarger == 0);
  CHECK(tested.unsound() == "");
}

TEST_CASE("regions have whole huge pages of the kernel's size, and begin at one") {
  for (const char* huge : {"HUGE=thp", "HUGE=hugetlb"}) {
    TestHeap tested({"POPULATE=now", "GATHER=off", huge});
    fake::machine().huge_page = fake::machine().hugetlb_page = 32 * kMiB;
    fake::machine().huge_pages = 100;
    fake::machine().base_takes_us = 5000;
    tested.boot();
    (void)tested.take(kPage);
    for (int i = 0; i < 3; ++i) {
      const Region& region = tested.region_of(tested.malloc(72 * kMiB));
      CHECK(region.page_kind != os::PageKind::kBase);
      CHECK(region.base % (32 * kMiB) == 0);
      CHECK(region.length % (32 * kMiB) == 0);
    }
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("what is smaller than a huge page is of base pages") {
  TestHeap tested({"HUGE=thp", "GATHER=off"});
  fake::machine().huge_page = 512 * kMiB;
  tested.boot();
  CHECK_FALSE(is_huge(tested, tested.malloc(40 * kMiB)));
  CHECK(is_huge(tested, tested.malloc(512 * kMiB)));
  CHECK(tested.unsound() == "");
}

TEST_CASE("a heap that its program touched densely grows by huge pages, and no other") {
  if (kPage > 16 * kKiB) {
    WARN("skipped: huge pages have 512 MiB where base pages have 64 KiB, and are not taken");
    return;
  }
  for (const bool is_dense : {true, false}) {
    TestHeap tested({"GATHER=off"});
    tested.boot();
    fake::machine().base_takes_us = 20'000;  // also if the thread is delayed
    (void)tested.take(kPage);
    for (int i = 0; i < 100; ++i) (void)take(tested, kMiB, is_dense ? kMiB : kPage);
    const void* block = tested.malloc(64 * kMiB);
    CHECK(is_huge(tested, block) == is_dense);
    // Enough to tell whether they pay off; the rest comes by touch.
    size_t populated = 0;
    for (const fake::Range& range : fake::ranges_in(block, 64 * kMiB)) {
      populated += range.populated ? range.bytes : 0;
    }
    CHECK(populated <= (is_dense ? HugePageWatch::trial() : 0));
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("a block of eight huge pages or more grows by huge pages, if they pay, and no other") {
  if (kPage > 16 * kKiB) {
    WARN("skipped: huge pages have 512 MiB where base pages have 64 KiB, and are not taken");
    return;
  }
  for (const bool pays : {true, false}) {
    TestHeap tested;
    tested.boot();
    fake::machine().base_takes_us = pays ? 20'000 : 0;  // also if the thread is delayed
    fake::machine().huge_takes_us = pays ? 0 : 20'000;
    (void)tested.take(kPage);
    HugePageWatch& watch = tested->populator().huge_pages().watch();
    if (!pays) watch.note(os::PageKind::kBase, 128 * kKiB, kBaseNs / 8, 32);
    void* small = take(tested, 4 * kMiB, 4 * kMiB);
    void* large = take(tested, 16 * kMiB, 16 * kMiB);
    for (int i = 0; i < 100; ++i) (void)take(tested, kMiB, kMiB);
    REQUIRE_FALSE(is_huge(tested, small));
    REQUIRE_FALSE(is_huge(tested, large));
    small = tested.move(small, 8 * kMiB);
    large = tested.move(large, 32 * kMiB);
    REQUIRE((small != nullptr && large != nullptr));
    CHECK_FALSE(is_huge(tested, small));
    CHECK((asked_for(tested, large) >= 16 * kMiB) == pays);
    // Until it moves on, no huge page has a part that is not the block's.
    CHECK((tested.region_of(large).end() % kHuge == 0 || !pays));
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("where huge pages are slow, what has not come of a region comes in base pages") {
  TestHeap tested({"POPULATE=now"});
  fake::machine().huge_takes_us = 20'000;
  tested.boot();
  (void)tested.take(kPage);
  const void* block = tested.malloc(400 * kMiB);
  CHECK(tested->populator().huge_pages().watch().finding() == Finding::kSlower);
  CHECK(asked_for(tested, block) == 0);
  CHECK_FALSE(is_huge(tested, tested.malloc(400 * kMiB)));
  CHECK(tested.unsound() == "");
}

TEST_CASE("whole huge pages are gathered first, and stay whole") {
  TestHeap tested({"HUGE=thp", "GATHER=always"});
  tested.boot();
  // Regions of one block each; each block gives its end back.
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(tested.malloc(16 * kMiB));
  for (void* const block : blocks) REQUIRE(tested.resize(block, 9 * kMiB + 3 * kPage));
  const auto* got = static_cast<const char*>(tested.malloc(40 * kMiB));
  REQUIRE(got != nullptr);
  REQUIRE(tested.region_of(got).gathered);
  CHECK(is_huge(tested, got));
  size_t whole = 0;
  bool is_behind = false;
  for (const fake::Range& range : fake::ranges_in(got, 40 * kMiB)) {
    const bool is_whole =
        range.base % kHuge == 0 && range.origin % kHuge == 0 && range.bytes % kHuge == 0;
    is_behind = is_behind || !is_whole;
    CHECK_FALSE((is_behind && is_whole && range.base < reinterpret_cast<uintptr_t>(got) + whole));
    whole += is_whole ? range.bytes : 0;
  }
  // Each of the six runs in the block has three.
  CHECK(whole >= 15 * kHuge);
  CHECK(tested.unsound() == "");
}

}  // namespace rdmalloc
