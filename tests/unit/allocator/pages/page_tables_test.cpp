// The page heap's tables by page (blocks, marks), and the per-processor caches.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "allocator/pages/block_table.h"
#include "allocator/pages/cpu_caches.h"
#include "allocator/pages/front_table.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/two_ended_table.h"
#include "allocator/pages/window.h"
#include "tests/support/catch.h"
#include "tests/support/fake_os.h"
#include "tests/support/kernel_abilities.h"
#include "tests/support/processor.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

const size_t kPage = os::page_size();

// A window, with this thread bound to one processor so that it finds what it gave.
struct Fixture {
  Fixture() {
    fake::reset();
    REQUIRE(ok(window.reserve(32'768 * kPage)));  // 64 granules with 4 KiB pages
    sched_getaffinity(0, sizeof before, &before);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~Fixture() {
    sched_setaffinity(0, sizeof before, &before);
    fake::reset();
  }
  uintptr_t page(size_t number) const { return window.base() + number * kPage; }

  Window window;
  cpu_set_t before;
  // A region for blocks that starts at this page.
  Region blocks_at(size_t number) const {
    Region region;
    region.base = page(number);
    region.use = RegionUse::kBlocks;
    return region;
  }
};

bool any(size_t) { return true; }

std::map<size_t, size_t> drained(CpuCaches& caches, bool patient = true) {
  std::map<size_t, size_t> all;
  caches.drain(patient, [&](CpuCaches::Block block) {
    REQUIRE(all.count(block.page) == 0);
    all[block.page] = block.pages;
    return false;
  });
  return all;
}

}  // namespace

TEST_CASE_METHOD(Fixture,
                 "a block of a cache wastes an eighth of itself at most, and is given once") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  caches.set_held(size_t{4} << 30);
  std::mt19937 random(5);
  std::map<size_t, size_t> kept;
  size_t pages = 0;
  size_t hits = 0;
  for (size_t step = 0; step < 50'000; ++step) {
    const size_t size = random() % 4 == 0 ? 9 + random() % 4000 : 9 + random() % 60;
    if (random() % 2 == 0) {
      if (!caches.give({step, size})) continue;
      kept[step] = size;
      pages += size;
    } else if (const CpuCaches::Block got = caches.take(size); got.pages != 0) {
      ++hits;
      REQUIRE(got.pages >= size);
      REQUIRE(got.pages - size <= got.pages / 8);
      REQUIRE(kept.count(got.page) == 1);
      REQUIRE(kept[got.page] == got.pages);
      kept.erase(got.page);
      pages -= got.pages;
    }
    REQUIRE(caches.bytes() == pages * kPage);
  }
  CHECK(hits > 5000);
  CHECK(drained(caches) == kept);
  CHECK(caches.bytes() == 0);
}

TEST_CASE_METHOD(Fixture, "what a block of the same size was given for is found, newest first") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  caches.set_held(size_t{4} << 30);
  const size_t most = 20'000 * (size_t{4} << 10) / kPage;  // larger blocks are not kept
  for (size_t pages = 9; pages < most; pages = pages * 9 / 8 + 1) {
    REQUIRE(caches.give({1, pages}));
    if (caches.give({2, pages})) CHECK(caches.take(pages).page == 2);
    CHECK(caches.take(pages).page == 1);
    CHECK(caches.take(pages).pages == 0);
  }
  CHECK_FALSE(caches.give({1, size_t{1} << 20}));  // 4 GiB
  CHECK(caches.take(size_t{1} << 20).pages == 0);
}

TEST_CASE_METHOD(
    Fixture,
    "a processor keeps its share of what is held, all together keep as much again, and one block "
    "each whatever that is") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  constexpr size_t kMiB = size_t{1} << 20;
  // Of different classes, because otherwise their bins would fill up first.
  const auto fill = [&caches] {
    size_t page = 1;
    for (size_t pages = 9; pages < 8000; pages += pages / 12 + 1) {
      for (int i = 0; i < 10; ++i) (void)caches.give({page++, pages});
    }
    return caches.bytes();
  };
  const size_t least = fill();
  CHECK(least <= 32 * kMiB);
  CHECK(least > 16 * kMiB);
  (void)drained(caches);
  caches.set_held(256 * kMiB);
  const size_t more = fill();
  CHECK(more <= 256 * kMiB);
  CHECK(more > 128 * kMiB);
  (void)drained(caches);
  caches.set_held(0);
  CHECK(caches.give({1, 32 * kMiB / kPage}));
  CHECK(caches.give({2, 32 * kMiB / kPage}));
  CHECK_FALSE(caches.give({3, 9}));
}

TEST_CASE_METHOD(Fixture, "a processor keeps less where blocks are used before they are freed") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  constexpr size_t kMiB = size_t{1} << 20;
  caches.set_held(96 * kMiB);
  const size_t pages = 2 * kMiB / kPage;
  uint64_t now = 1;
  // Takes and gives a block, used for that long, 400 times; then gives more than are kept.
  const auto kept_if_used_for = [&](uint64_t ns) {
    for (size_t i = 0; i < 400; ++i) {
      fake::set_time(now += ns);
      REQUIRE(caches.give({1, pages}));
      REQUIRE(caches.take(pages).page == 1);
    }
    for (size_t page = 1; page <= 20; ++page) (void)caches.give({page, pages});
    while (caches.take_shared(pages, any).pages != 0) {
    }
    const size_t bytes = caches.bytes();
    (void)drained(caches);
    return bytes;
  };
  CHECK(kept_if_used_for(0) == 40 * kMiB);
  CHECK(kept_if_used_for(6000) == 8 * kMiB);
  CHECK(kept_if_used_for(0) == 40 * kMiB);
}

TEST_CASE_METHOD(Fixture, "what does not fit in a processor's cache serves all others") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  caches.set_held(4096 * kPage);
  fake::pretend_processors();
  fake::processor = 1;
  size_t given = 0;
  while (caches.give({given + 1, 10})) ++given;
  CHECK(given == 62);  // a bin of its own, and one that all share
  fake::processor = 0;
  CHECK(caches.take(10).pages == 0);
  CHECK(caches.take_shared(10, [](size_t page) { return page == 40; }).page == 40);
  size_t got = 1;
  while (caches.take_shared(10, any).pages != 0) ++got;
  CHECK(got == 31);
  fake::processor = 1;
  while (caches.take(10).pages != 0) ++got;
  CHECK(got == 62);
  CHECK(caches.bytes() == 0);
}

TEST_CASE_METHOD(Fixture, "a processor that only frees hands on all that it frees") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  caches.set_held(size_t{4} << 30);
  fake::pretend_processors();
  // Of the last 100 blocks that one processor frees, those which another gets at once.
  const auto handed_on = [&](int32_t other) {
    size_t got = 0;
    for (size_t page = 1; page <= 400; ++page) {
      const size_t pages = 10 + page % 100;
      fake::processor = 1;
      REQUIRE(caches.give({page, pages}));
      fake::processor = other;
      CpuCaches::Block block = caches.take(pages);
      if (block.pages == 0) block = caches.take_shared(pages, any);
      if (page > 300 && fake::processor != 1 && block.page == page) ++got;
    }
    (void)drained(caches);
    return got;
  };
  CHECK(handed_on(0) == 100);
  // The control: one that mallocs again what it frees keeps it.
  CHECK(handed_on(1) == 0);
  fake::processor = 1;
  REQUIRE(caches.give({1, 10}));
  CHECK(caches.take_shared(10, any).pages == 0);
  CHECK(caches.take(10).page == 1);
}

TEST_CASE_METHOD(Fixture, "a processor that is first used while a fork locks all keeps nothing") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  fake::pretend_processors();
  fake::processor = 0;
  REQUIRE(caches.give({1, 10}));
  caches.lock_all();
  fake::processor = 3;
  CHECK_FALSE(caches.give({2, 10}));
  CHECK(caches.take_larger(9).pages == 0);
  caches.unlock_all();
  CHECK(caches.give({2, 10}));
  caches.lock_all();  // waits for no byte that somebody holds
  caches.unlock_all();
  fake::processor = 0;
  CHECK(caches.bytes() == 20 * kPage);
}

TEST_CASE_METHOD(Fixture, "another thread takes out what this one has kept") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  caches.set_held(4096 * kPage);
  std::map<size_t, size_t> kept;
  for (size_t i = 1; i <= 40; ++i) {
    REQUIRE(caches.give({i, 9 + i}));
    kept[i] = 9 + i;
  }
  std::map<size_t, size_t> got;
  std::thread([&] {
    cpu_set_t other = before;
    sched_setaffinity(0, sizeof other, &other);
    caches.drain(false, [&](CpuCaches::Block block) {
      got[block.page] = block.pages;
      return false;
    });
  }).join();
  CHECK(got == kept);
  CHECK(caches.bytes() == 0);
  CHECK(caches.take(10).pages == 0);
}

TEST_CASE_METHOD(Fixture,
                 "a larger block is found, and then taken, from the smallest class that has one") {
  CpuCaches caches;
  CHECK(caches.find_larger(16).pages == 0);
  REQUIRE(ok(caches.boot(window.size())));
  caches.set_held(4096 * kPage);
  for (const size_t pages : {16, 64, 256}) REQUIRE(caches.give({pages, pages}));
  CHECK(caches.find_larger(16).pages == 64);
  CHECK(caches.find_larger(16).pages == 64);
  CHECK(caches.take_larger(16).pages == 64);
  CHECK(caches.find_larger(16).pages == 256);
  CHECK(caches.find_larger(256).pages == 0);
}

TEST_CASE_METHOD(Fixture,
                 "what caches keep is added up once for as many calls as there are caches") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  fake::pretend_processors();
  for (int processor = 0; processor < 4; ++processor) {
    fake::processor = processor;
    REQUIRE(caches.give({static_cast<size_t>(processor), 10}));
  }
  size_t lately = 0;
  for (int call = 0; call < 4; ++call) lately = caches.bytes_lately();
  CHECK(lately == 40 * kPage);
  REQUIRE(caches.take(10).pages == 10);
  for (int call = 0; call < 3; ++call) CHECK(caches.bytes_lately() == 40 * kPage);
  CHECK(caches.bytes_lately() == 30 * kPage);
}

TEST_CASE_METHOD(Fixture, "the largest blocks are taken out first, and no more than are wanted") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  caches.set_held(4096 * kPage);
  for (size_t pages = 16; pages <= 256; pages *= 2) REQUIRE(caches.give({pages, pages}));
  std::vector<size_t> got;
  caches.drain(false, [&](CpuCaches::Block block) {
    got.push_back(block.pages);
    return got.size() == 2;
  });
  CHECK(got == std::vector<size_t>{256, 128});
  CHECK(drained(caches) == std::map<size_t, size_t>{{16, 16}, {32, 32}, {64, 64}});
}

TEST_CASE_METHOD(Fixture,
                 "whoever finds a processor's bins taken goes elsewhere, and does not wait") {
  CpuCaches caches;
  REQUIRE(ok(caches.boot(window.size())));
  REQUIRE(caches.give({1, 10}));
  caches.lock_all();
  CHECK(caches.take(10).pages == 0);
  CHECK_FALSE(caches.give({2, 10}));
  CHECK(drained(caches, false).empty());
  caches.unlock_all();
  CHECK(caches.take(10).page == 1);
}

TEST_CASE_METHOD(Fixture, "a table is backed near the window's two ends, as far as needed") {
  TwoEndedTable table;
  constexpr size_t kBytes = size_t{64} << 20;
  REQUIRE(ok(table.boot(kBytes, TwoEndedTable::Rest::kZero)));
  auto* const bytes = static_cast<char*>(table.memory());
  CHECK(table.bytes() == 0);
  // Both at once, too, and what is covered already.
  size_t low = 0;
  size_t high = kBytes;
  for (const size_t step : {size_t{1}, size_t{100'000}, size_t{1}, size_t{1} << 20}) {
    REQUIRE(table.cover(low, low + step));
    std::fill_n(bytes + low, step, 'l');
    low += step;
    REQUIRE(table.cover(high - step, high));
    std::fill_n(bytes + high - step, step, 'h');
    high -= step;
    CHECK(table.bytes() >= 2 * low);
    CHECK(table.bytes() <= 2 * low + (size_t{128} << 10));
  }
  CHECK(std::count(bytes, bytes + low, 'l') == static_cast<ptrdiff_t>(low));
  CHECK(std::count(bytes + low, bytes + high, 0) == static_cast<ptrdiff_t>(high - low));
  CHECK(std::count(bytes + high, bytes + kBytes, 'h') == static_cast<ptrdiff_t>(low));
  // Refused, then where the ends meet.
  fake::fail(fake::Call::kMapMetadata, 1);
  const size_t covered = table.bytes();
  CHECK_FALSE(table.cover(kBytes / 2, kBytes / 2 + 1));
  CHECK(table.bytes() == covered);
  for (const size_t from : {kBytes / 2, kBytes / 4, kBytes / 4 * 3, size_t{0}}) {
    REQUIRE(table.cover(from, from + kBytes / 4));
    std::fill_n(bytes + from, kBytes / 4, 'm');
  }
  CHECK(table.bytes() == kBytes);
}

TEST_CASE_METHOD(Fixture, "a block's word says how many pages it has and how many were asked for") {
  BlockTable table(window);
  REQUIRE(ok(table.boot()));
  for (const size_t pages : {size_t{1}, size_t{9}, size_t{100'000}, size_t{1} << 31}) {
    for (const size_t asked : {pages, pages - pages / 8}) {
      const BlockTable::Word word = BlockTable::make(pages, asked, BlockTable::kApart);
      CHECK(BlockTable::pages_of(word) == pages);
      CHECK(BlockTable::asked_pages_of(word) == asked);
      CHECK((word & BlockTable::kApart) != 0);
      CHECK((word & (BlockTable::kCached | BlockTable::kExposed)) == 0);
    }
  }
}

TEST_CASE_METHOD(
    Fixture, "the table of blocks is backed from the top of the window down, as far as needed") {
  BlockTable table(window);
  REQUIRE(ok(table.boot()));
  CHECK_FALSE(table.is_covered(window.base()));
  CHECK_FALSE(table.is_covered(window.base() + window.size() - kPage));
  CHECK_FALSE(table.is_covered(0));
  const size_t end = window.size() / kPage;
  const size_t all = end * sizeof(BlockTable::Word);
  for (const size_t first : {end - 512, end - 5000, end - 20'000, size_t{0}}) {
    REQUIRE(table.cover(blocks_at(first)));
    CHECK(table.is_covered(page(first)));
    CHECK(table.is_covered(page(end - 1)));
    CHECK_FALSE(table.is_covered(page(end)));
    if (first != 0) CHECK_FALSE(table.is_covered(page(first) - kPage));
    CHECK(table.get(page(first)) == 0);
    table.set(page(first), BlockTable::make(10, 10));
    CHECK(table.page_of(table.address_of(first)) == first);
  }
  CHECK(table.get(page(end - 512)) == BlockTable::make(10, 10));
  CHECK(table.metadata_bytes() <= all + (size_t{64} << 10));
  CHECK(fake::violations().empty());
}

TEST_CASE_METHOD(Fixture, "words for which there was no memory are requested again") {
  BlockTable table(window);
  REQUIRE(ok(table.boot()));
  fake::fail(fake::Call::kMapMetadata, 1);
  CHECK_FALSE(table.cover(blocks_at(1000)));
  CHECK_FALSE(table.is_covered(page(1000)));
  CHECK(table.metadata_bytes() == 0);
  CHECK(table.cover(blocks_at(1000)));
  CHECK(table.get(page(1000)) == 0);
}

TEST_CASE_METHOD(Fixture, "the words of retired addresses are forgotten, and no others") {
  BlockTable table(window);
  REQUIRE(ok(table.boot()));
  REQUIRE(table.cover(blocks_at(0)));
  for (size_t at = 0; at < 8192; ++at) table.set(page(at), BlockTable::make(at + 9, at + 9));
  const auto is_unused = [](uintptr_t, uintptr_t) { return false; };
  table.forget(page(700), 3000 * kPage, is_unused);
  size_t left = 0;
  for (size_t at = 0; at < 8192; ++at) {
    const bool is_forgotten = table.get(page(at)) == 0;
    if (at < 700 || at >= 3700) REQUIRE_FALSE(is_forgotten);
    left += at >= 700 && at < 3700 && !is_forgotten ? 1 : 0;
  }
  CHECK(left < 2 * kPage / sizeof(BlockTable::Word));
  CHECK(fake::violations().empty());
}

TEST_CASE_METHOD(Fixture,
                 "the words of retired addresses go with all that nobody uses around them") {
  BlockTable table(window);
  REQUIRE(ok(table.boot()));
  REQUIRE(table.cover(blocks_at(0)));
  const size_t on_page = kPage / sizeof(BlockTable::Word);
  for (size_t at = 0; at < 8192; ++at) table.set(page(at), BlockTable::make(at + 9, at + 9));
  // Only what lies behind is unused.
  table.forget(page(700), 3000 * kPage,
               [&](uintptr_t from, uintptr_t) { return from >= page(3700); });
  const auto is_forgotten = [&](size_t at) { return table.get(page(at)) == 0; };
  const size_t first = os::align_up(700, on_page);
  const size_t last = os::align_up(3700, on_page);
  for (size_t at = 0; at < 8192; ++at) REQUIRE(is_forgotten(at) == (at >= first && at < last));
}

TEST_CASE("page tables of the words go with a region, where the words tell of nothing else") {
  if (!fake::needs_whole_window()) return;
  fake::reset();
  Window large;
  const size_t told = os::page_table_reach() / sizeof(BlockTable::Word) * kPage;  // by one table
  REQUIRE(ok(large.reserve(6 * told)));
  if (large.size() < 6 * told) {
    puts("SKIPPED: this process may not have the addresses of six page tables of words");
    return;
  }
  BlockTable table(large);
  REQUIRE(ok(table.boot()));
  Region region;
  region.base = large.base();
  region.length = 5 * told;
  region.use = RegionUse::kBlocks;
  REQUIRE(table.cover(region));
  const size_t step = told / 16;
  for (size_t at = 0; at < large.size(); at += step) table.set(large.base() + at, 9);
  const auto is_vacant = [&](uintptr_t address, size_t size) {
    CHECK(size == told);
    return address >= large.base() + 2 * told;
  };
  table.drop_page_tables(region, is_vacant);
  size_t gone = 0;
  for (size_t at = 0; at < large.size(); at += step) {
    const bool is_gone = table.get(large.base() + at) == 0;
    gone += is_gone ? 1 : 0;
    if (at < 2 * told) CHECK_FALSE(is_gone);
  }
  CHECK(gone >= 2 * 16);
  table.set(large.base() + 4 * told, 9);
  CHECK(table.get(large.base() + 4 * told) == 9);
  fake::reset();
}

TEST_CASE_METHOD(Fixture, "what front caches know of objects can be read of all of the window") {
  FrontTable table(window);
  REQUIRE(ok(table.boot()));
  const size_t units = window.size() >> FrontTable::kUnitShift;
  const auto sum = [&] {
    FrontTable::Entry all = 0;
    for (size_t i = 0; i < units; ++i) all += table.slots()[i].entry;
    return all;
  };
  CHECK(sum() == 0);
  Region region;
  region.base = window.base();
  region.length = window.size() / 2;
  REQUIRE(table.cover(region));
  CHECK(table.metadata_bytes() != 0);
  table.slots()[0].entry = 1;
  table.slots()[units / 2 - 1].entry = 2 | FrontTable::kCached;
  CHECK(sum() == (3 | FrontTable::kCached));
  table.forget_all();
  CHECK(sum() == 0);
}

TEST_CASE_METHOD(
    Fixture, "what front caches knew of retired addresses takes no memory, and of others stays") {
  FrontTable table(window);
  REQUIRE(ok(table.boot()));
  Region region;
  region.base = window.base();
  region.length = window.size() / 2;
  REQUIRE(table.cover(region));
  const size_t units = kPage / sizeof(FrontTable::Slot);  // of which one page of the table tells
  const auto is_there = [&](size_t page) {
    unsigned char resident = 0;
    REQUIRE(mincore(table.slots() + page * units, kPage, &resident) == 0);
    return (resident & 1) != 0;
  };
  for (size_t page = 0; page < 4; ++page) table.slots()[page * units + units / 2].entry = 1;
  for (const size_t page : {1, 2}) table.slots()[page * units + units / 2].entry = 0;
  if (!test::has(is_there(0), "tell what pages there are (mincore)")) return;
  const size_t bytes = units << FrontTable::kUnitShift;
  const uintptr_t end = region.base + 3 * bytes + 3 * bytes / 4;
  bool is_unused_behind = false;
  const auto is_unused = [&](uintptr_t from, uintptr_t) { return is_unused_behind && from >= end; };
  table.forget(region.base + bytes / 4, 3 * bytes + bytes / 2, is_unused);
  CHECK(is_there(0));
  CHECK_FALSE(is_there(1));
  CHECK_FALSE(is_there(2));
  CHECK(is_there(3));
  CHECK(table.slots()[units / 2].entry == 1);
  CHECK(table.slots()[3 * units + units / 2].entry == 1);
  is_unused_behind = true;
  table.forget(region.base + bytes / 4, 3 * bytes + bytes / 2, is_unused);
  CHECK(is_there(0));
  CHECK_FALSE(is_there(3));
}

TEST_CASE_METHOD(Fixture, "marks say what a list of pages would") {
  constexpr size_t kPages = 2000;
  RegionTable regions(window);
  REQUIRE(ok(regions.boot()));
  PageMarks marks(window, regions);
  REQUIRE(ok(marks.boot()));
  // Whether the first page is retired before a region comes or after it.
  Region region = blocks_at(0);
  region.length = kPages / 2 * kPage;
  REQUIRE(regions.cover(region));
  REQUIRE(marks.cover(region));
  regions.add(region, RegionTable::kNoSlot);
  CHECK_FALSE(marks.is_retired(page(0), region.length));
  marks.retire(page(0), kPage);
  CHECK(marks.is_retired(page(0), 1));
  Region later = blocks_at(kPages / 2);
  later.length = (kPages - kPages / 2) * kPage;
  REQUIRE(marks.cover(later));
  marks.add(later);
  std::vector<bool> retired(kPages);
  retired[0] = true;
  std::vector<bool> seam(kPages);
  std::mt19937 random(11);
  const auto first = [&](const std::vector<bool>& bits, size_t from, size_t to, bool wanted) {
    while (from < to && bits[from] != wanted) ++from;
    return page(from);
  };
  for (int step = 0; step < 3000; ++step) {
    const size_t from = random() % kPages;
    const size_t count =
        1 + random() % std::min<size_t>(kPages - from, random() % 10 == 0 ? 300 : 9);
    const size_t to = from + count;
    if (step % 50 == 0) {
      marks.retire(page(from), count * kPage);
      for (size_t at = from; at < to; ++at) {
        retired[at] = true;
        seam[at] = false;
      }
    } else if (step % 7 == 0) {
      marks.seams().set(page(from), kPage);
      seam[from] = true;
    }
    REQUIRE(marks.first_retired(page(from), page(to)) == first(retired, from, to, true));
    REQUIRE(marks.first_kept(page(from), page(to)) == first(retired, from, to, false));
    REQUIRE(marks.seams().first_set(page(from), page(to)) == first(seam, from, to, true));
    REQUIRE(marks.is_retired(page(from), count * kPage) ==
            (first(retired, from, to, true) != page(to)));
    // Also for parts of pages.
    REQUIRE(marks.is_retired(page(from) + 17, 1) == retired[from]);
    if (to < kPages) {
      REQUIRE(marks.is_retired(page(to) - 1, 2) == (retired[to - 1] || retired[to]));
    }
  }
  CHECK(marks.first_retired(page(5), page(5)) == page(5));
  marks.forget(region);
  CHECK(marks.first_kept(page(0), page(kPages / 2)) == page(kPages / 2));
  CHECK(marks.seams().first_set(page(0), page(kPages / 2)) == page(kPages / 2));
  REQUIRE(marks.first_retired(page(kPages / 2), page(kPages)) ==
          first(retired, kPages / 2, kPages, true));
}

}  // namespace rdmalloc
