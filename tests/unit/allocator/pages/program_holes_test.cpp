// What a program's own system calls do to the heap's pages: books, lookups, who gets which page
// afterwards, and the state after a refused call.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/rounds.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

class Witness : public RegionObserver {
 public:
  void on_acquire(const Region&) noexcept override {}
  void on_hole(const Region& region) noexcept override { holes.push_back(region.base); }
  void on_retire(const Region& region) noexcept override { retired.push_back(region.base); }
  void on_fork_child() noexcept override {}

  std::vector<uintptr_t> holes;
  std::vector<uintptr_t> retired;
};

// A booted heap, and the system calls of its program.
struct Program {
  explicit Program(std::initializer_list<const char*> options = {"GATHER=always"})
      : tested(options) {
    tested.boot();
    REQUIRE(ok(tested->publisher().attach(&witness)));
  }

  char* malloc(size_t pages) { return static_cast<char*>(tested.malloc(pages * kPage)); }
  char* malloc_exposed(size_t pages) {
    return static_cast<char*>(tested.malloc_exposed(pages * kPage));
  }
  char* take_extent(size_t pages) { return static_cast<char*>(tested.take(pages * kPage)); }

  ProgramHoles::Hole begin(const void* at, size_t pages) {
    return tested.begin_hole(number(at), pages * kPage);
  }
  // munmap() or mmap() with MAP_FIXED that the kernel grants.
  void destroy(const void* at, size_t pages) {
    const ProgramHoles::Hole hole = begin(at, pages);
    fake::destroy(at, pages * kPage);
    tested->holes().end(hole, "munmap");
  }
  // The same, but the kernel refuses it.
  void try_to_destroy(const void* at, size_t pages) { tested->holes().undo(begin(at, pages)); }
  void shut(char* at, size_t pages) {
    tested->holes().shut(number(at), pages * kPage);
    REQUIRE(mprotect(at, pages * kPage, PROT_NONE) == 0);
  }
  void open(char* at, size_t pages) {
    REQUIRE(mprotect(at, pages * kPage, PROT_READ | PROT_WRITE) == 0);
    tested->holes().open(number(at), pages * kPage);
  }

  bool is_retired(const char* at, size_t pages = 1) { return tested.is_retired(at, pages * kPage); }
  bool has_hole(const char* at, size_t pages = 1) { return tested->holes().has(at, pages * kPage); }
  // Whether exactly those pages of the block are retired.
  bool are_retired(const char* block, size_t pages, size_t from, size_t count) {
    for (size_t page = 0; page < pages; ++page) {
      const bool is_gone = page >= from && page < from + count;
      if (is_retired(block + page * kPage) != is_gone) return false;
      if (has_hole(block + page * kPage) != is_gone) return false;
    }
    return true;
  }
  size_t held() { return tested->budget().charges().held(); }
  size_t pinned() { return tested->budget().charges().pinned(); }
  size_t live() { return heap_counters(*tested).live; }
  size_t lost() { return tested->holes().lost_bytes(); }

  Witness witness;
  TestHeap tested;
};

// The accounts before the call, and how much of them must go.
struct Account {
  explicit Account(Program& f)
      : program(f), held(f.held()), pinned(f.pinned()), live(f.live()), lost(f.lost()) {}
  bool lack(size_t pages, size_t live_pages) const {
    const size_t bytes = pages * kPage;
    return program.held() == held - bytes &&
           program.pinned() == pinned - (pinned == 0 ? 0 : bytes) &&
           program.live() == live - live_pages * kPage && program.lost() == lost + bytes;
  }
  Program& program;
  size_t held;
  size_t pinned;
  size_t live;
  size_t lost;
};

// Takes blocks until all currently free memory is used up; calls visit(block) for each.
template <typename Visit>
void take_all(Program& f, size_t pages, Visit visit) {
  for (const size_t before = f.held(); f.held() == before;) {
    char* const got = f.malloc(pages);
    REQUIRE(got != nullptr);
    visit(got);
  }
}

}  // namespace

TEST_CASE("a hole in a block takes exactly its pages out of the books, and of lookups") {
  for (const char* kind : {"CAP=1G", "CAP=0"}) {  // pinned, and not
    for (const auto& [from, count] : {std::pair<size_t, size_t>{0, 1},
                                      {99, 1},
                                      {40, 1},
                                      {40, 30},
                                      {0, 50},
                                      {50, 50},
                                      {0, 100}}) {
      INFO(kind << ", pages " << from << " to " << from + count);
      Program f({"GATHER=always", kind});
      char* const block = f.malloc(100);
      const char* const neighbour = f.malloc(100);
      const uintptr_t region = f.tested.region_of(block).base;
      const Account before(f);
      CHECK_FALSE(f.has_hole(block, 100));
      f.destroy(block + from * kPage, count);
      CHECK(before.lack(count, count));
      CHECK(f.are_retired(block, 100, from, count));
      CHECK_FALSE(f.has_hole(neighbour, 100));
      CHECK(f.tested->blocks().size_of(block) == 100 * kPage);
      CHECK(f.witness.holes == std::vector<uintptr_t>{region});
      CHECK(f.tested.unsound() == "");
    }
  }
}

TEST_CASE(
    "lookups look at each page around a hole, from where a hit could reach into it, and at no "
    "others") {
  Program f;
  const size_t pages = 32 * kMiB / kPage;
  char* const block = f.malloc(pages);
  const Window& window = f.tested->window();
  const RegionTable& regions = f.tested->regions();
  const Region* const region = regions.find(block);
  REQUIRE(region != nullptr);
  const auto stretch_of = [&](uintptr_t address) {
    return (address - window.base()) >> RegionTable::kStretchShift;
  };
  const auto is_looked_at = [&](size_t stretch) {
    return regions.whole_by_stretch()[stretch].load() == 0;
  };
  const size_t first = stretch_of(region->base);
  const size_t end = stretch_of(region->end() - 1) + 1;
  for (size_t stretch = first; stretch < end; ++stretch) CHECK_FALSE(is_looked_at(stretch));
  const char* const hole = block + 9 * kMiB;
  f.destroy(hole, 1);
  const size_t last = stretch_of(reinterpret_cast<uintptr_t>(hole));
  REQUIRE((first < last && last + 1 < end));
  for (size_t stretch = first; stretch < end; ++stretch) {
    CHECK(is_looked_at(stretch) == (stretch == last - 1 || stretch == last));
  }
}

TEST_CASE("pages are given to no one from the moment a call is about to destroy them") {
  Program f;
  char* const block = f.malloc(100);
  const Account before(f);
  const ProgramHoles::Hole hole = f.begin(block + 10 * kPage, 5);
  CHECK(hole.lost == 5 * kPage);
  CHECK(f.are_retired(block, 100, 10, 5));
  CHECK(f.witness.holes.size() == 1);
  CHECK(validate(*f.tested));
  fake::destroy(block + 10 * kPage, 5 * kPage);
  f.tested->holes().end(hole, "munmap");
  CHECK(before.lack(5, 5));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("pages that are destroyed twice are lost once") {
  Program f;
  char* const block = f.malloc(100);
  const Account before(f);
  f.destroy(block + 10 * kPage, 20);
  f.destroy(block + 10 * kPage, 20);
  CHECK(before.lack(20, 20));
  f.destroy(block + 5 * kPage, 30);
  CHECK(before.lack(30, 30));
  CHECK(f.are_retired(block, 100, 5, 30));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("calls elsewhere are none of the heap's") {
  Program f;
  char* const block = f.malloc(100);
  const Account before(f);
  char own[2 * kPage];
  f.destroy(own, 0);
  CHECK(f.tested->holes().has(own, 1) == false);
  const auto window = f.tested->window().base();
  const auto whole_machine = f.tested->holes().begin(0, window);
  CHECK(whole_machine.lost == 0);
  f.tested->holes().end(whole_machine, "munmap");
  const auto nowhere = f.tested->holes().begin(window + f.tested->window().size(), SIZE_MAX);
  CHECK(nowhere.lost == 0);
  f.tested->holes().undo(nowhere);
  // In the window, but in no region.
  const char* const unused = reinterpret_cast<char*>(window + f.tested->window().size() / 2);
  CHECK(f.begin(unused, 100).lost == 0);
  CHECK(before.lack(0, 0));
  CHECK_FALSE(f.has_hole(block, 100));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a call that begins before the window or ends behind it takes what it has of the heap") {
  Program f;
  const char* const block = f.malloc(100);
  const Region& region = f.tested.region_of(block);
  const size_t pages = region.length / kPage;
  const Account before(f);
  const auto hole = f.tested->holes().begin(kPage, SIZE_MAX);
  CHECK(hole.lost == pages * kPage);
  fake::destroy(reinterpret_cast<void*>(region.base), region.length);
  f.tested->holes().end(hole, "munmap");
  CHECK(before.lack(pages, 100));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("destroyed free pages are never handed out") {
  Program f;
  char* const block = f.malloc(100);
  (void)f.malloc(100);
  REQUIRE(f.tested.free(block));
  const Account before(f);
  f.destroy(block + 20 * kPage, 30);
  CHECK(before.lack(30, 0));
  CHECK(f.are_retired(block, 100, 20, 30));
  CHECK(f.tested.unsound() == "");
  take_all(f, 10, [&](const char* got) {
    CHECK((got + 10 * kPage <= block + 20 * kPage || got >= block + 50 * kPage));
  });
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a hole over blocks, free pages and an older hole takes each once") {
  Program f;
  char* const first = f.malloc(20);
  char* const second = f.malloc(20);
  char* const third = f.malloc(20);
  char* const fourth = f.malloc(20);
  std::vector<char*> all{first, second, third, fourth};
  std::sort(all.begin(), all.end());
  REQUIRE(all[3] == all[0] + 60 * kPage);  // they are adjacent
  f.destroy(all[2] + 5 * kPage, 2);
  REQUIRE(f.tested.free(all[1]));
  const Account before(f);
  f.destroy(all[0] + 10 * kPage, 60);
  CHECK(before.lack(58, 38));
  CHECK(f.are_retired(all[0], 80, 10, 60));
  CHECK(f.tested.unsound() == "");
  for (char* block : {all[0], all[2], all[3]}) CHECK(f.tested.free(block));
  CHECK(f.live() == 0);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("jemalloc's extents have holes too, and are taken back around them") {
  Program f;
  char* const extent = f.take_extent(100);
  const Account before(f);
  f.destroy(extent + 30 * kPage, 10);
  CHECK(before.lack(10, 10));
  CHECK(f.are_retired(extent, 100, 30, 10));
  CHECK(f.tested.unsound() == "");
  CHECK(f.tested.give(extent, 50 * kPage));  // in parts, as jemalloc does
  CHECK(f.tested.unsound() == "");
  CHECK(f.tested.give(extent + 50 * kPage, 50 * kPage));
  CHECK(before.lack(10, 100));
  CHECK(f.tested.unsound() == "");
  for (int i = 0; i < 200; ++i) {
    const char* const got = f.take_extent(10);
    CHECK((got + 10 * kPage <= extent + 30 * kPage || got >= extent + 40 * kPage));
  }
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("exposed blocks have holes too, and their other pages stay exposed") {
  Program f;
  char* const block = f.malloc_exposed(100);
  const Account before(f);
  f.destroy(block + 30 * kPage, 10);
  CHECK(before.lack(10, 10));
  CHECK(f.are_retired(block, 100, 30, 10));
  CHECK(f.tested.region_of(block).exposed);
  CHECK(f.tested.unsound() == "");
  REQUIRE(f.tested.free(block));
  CHECK(heap_counters(*f.tested).live_exposed == 0);
  for (int i = 0; i < 50; ++i) {
    const char* const got = f.malloc_exposed(30);
    CHECK((got + 30 * kPage <= block + 30 * kPage || got >= block + 40 * kPage));
  }
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("memory that comes by touch has holes, and is not held for what they took") {
  Program f({"GATHER=always", "SPARSE_FROM=1M", "SPARSE=malloc"});
  char* const block = f.malloc(1000);
  REQUIRE(f.tested.region_of(block).kind == RegionKind::kSparse);
  const size_t held = f.held();
  f.destroy(block + 30 * kPage, 10);
  CHECK(f.held() == held - 10 * kPage);
  CHECK(f.tested.unsound() == "");
  CHECK(f.tested.free(block));
  CHECK(f.tested.unsound() == "");
  char* const other = f.malloc(1000);
  CHECK_FALSE(f.has_hole(other, 1000));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("an extent of a region that is destroyed whole is taken back all the same") {
  Program f;
  char* const extent = f.take_extent(100);
  const Region& region = f.tested.region_of(extent);
  auto* const whole = reinterpret_cast<char*>(region.base);
  const size_t pages = region.length / kPage;
  f.destroy(whole, pages);
  CHECK(f.tested->regions().find(extent) == nullptr);
  CHECK(f.tested.give(extent, 50 * kPage));
  CHECK(f.tested.give(extent + 50 * kPage, 50 * kPage));
  CHECK(f.live() == 0);
  const char* const next = f.take_extent(100);
  CHECK((next + 100 * kPage <= whole || next >= whole + pages * kPage));
  // Memory that never was an extent is not mistaken for one.
  char elsewhere = 0;
  CHECK_FALSE(f.tested->extents().release(&elsewhere, kPage));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a region that is destroyed whole is gone, and its blocks are freed all the same") {
  for (const bool at_once : {true, false}) {
    Program f;
    const size_t half = std::min<size_t>(100, 2 * kMiB / kPage);  // both in one region
    char* const first = f.malloc(half);
    char* const second = f.malloc(half);
    const Region& region = f.tested.region_of(first);
    const uintptr_t base = region.base;
    const size_t pages = region.length / kPage;
    auto* const whole = reinterpret_cast<char*>(base);
    const Account before(f);
    if (at_once) {
      f.destroy(whole, pages);
    } else {
      for (size_t page = 0; page < pages; page += 4) f.destroy(whole + page * kPage, 4);
    }
    CHECK(before.lack(pages, 2 * half));
    CHECK(f.held() == 0);
    CHECK(f.tested->regions().find(first) == nullptr);
    CHECK(f.is_retired(whole, pages));
    CHECK(f.witness.retired == std::vector<uintptr_t>{base});
    CHECK(f.tested.unsound() == "");
    CHECK(f.tested->blocks().size_of(first) == half * kPage);
    CHECK_FALSE(f.tested->blocks().resize(first, 2 * half * kPage));
    CHECK(f.tested->blocks().move(first, 16 * kMiB) == nullptr);
    CHECK(f.tested.free(first));
    CHECK_FALSE(f.tested->blocks().release(first));
    CHECK(f.tested.free(second));
    const char* const next = f.malloc(100);
    CHECK((next + 100 * kPage <= whole || next >= whole + pages * kPage));
    CHECK(f.tested.unsound() == "");
  }
}

TEST_CASE("a hole over several regions takes what it has of each") {
  Program f({"GATHER=off"});
  std::vector<char*> blocks;
  while (f.tested->regions().size() < 4) blocks.push_back(f.malloc(1000));
  uintptr_t from = UINTPTR_MAX;
  uintptr_t to = 0;
  size_t held = 0;
  for (size_t i = 0; i < f.tested->regions().size(); ++i) {
    const Region& region = f.tested->regions()[i];
    from = std::min(from, region.base);
    to = std::max(to, region.end());
    held += region.length;
  }
  REQUIRE(held == f.held());
  // All but the first and last 3 pages.
  const auto hole = f.tested.begin_hole(from + 3 * kPage, to - from - 6 * kPage);
  CHECK(hole.lost == held - 6 * kPage);
  for (size_t i = 0; i < f.tested->regions().size(); ++i) {
    const Region& region = f.tested->regions()[i];
    const uintptr_t low = std::max(region.base, from + 3 * kPage);
    const uintptr_t high = std::min(region.end(), to - 3 * kPage);
    fake::destroy(reinterpret_cast<void*>(low), high - low);
  }
  f.tested->holes().end(hole, "munmap");
  CHECK(f.held() == 6 * kPage);
  CHECK(f.pinned() == 6 * kPage);
  CHECK(f.lost() == held - 6 * kPage);
  CHECK(f.witness.holes.size() == 4);
  CHECK(f.witness.retired.size() == 2);
  CHECK(f.tested.unsound() == "");
  for (char* block : blocks) CHECK(f.tested.free(block));
  CHECK(f.live() == 0);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a block with holes is freed in parts, and all of them are used again") {
  Program f;
  char* const block = f.malloc(100);
  f.destroy(block + 20 * kPage, 1);
  f.destroy(block + 60 * kPage, 20);
  const size_t held = f.held();
  memset(block + 60 * kPage, 'p', 20 * kPage);  // the program's own page
  REQUIRE(f.tested.free(block));
  CHECK(f.live() == 0);
  CHECK(f.held() == held);
  CHECK(f.tested.unsound() == "");
  std::set<size_t> pages;
  take_all(f, 10, [&](char* got) {
    memset(got, 'x', 10 * kPage);
    for (const char* at = got; at < got + 10 * kPage; at += kPage) {
      if (at >= block && at < block + 100 * kPage) {
        pages.insert(static_cast<size_t>(at - block) / kPage);
      }
    }
  });
  CHECK(pages.size() >= 70);  // in tens
  CHECK(pages.count(20) == 0);
  for (size_t page = 60; page < 80; ++page) CHECK(pages.count(page) == 0);
  CHECK(std::all_of(block + 60 * kPage, block + 80 * kPage, [](char byte) { return byte == 'p'; }));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("pages beside a hole are gathered, and what lies in the hole stays where it is") {
  Program f;
  std::vector<char*> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(f.malloc(50));
  for (char* block : blocks) {
    f.destroy(block + 24 * kPage, 2);
    memset(block + 24 * kPage, 'p', 2 * kPage);
  }
  for (char* block : blocks) REQUIRE(f.tested.free(block));
  const size_t before = heap_counters(*f.tested).gathered;
  CHECK(f.malloc(1500) != nullptr);
  CHECK(heap_counters(*f.tested).gathered - before >= 1000 * kPage);
  for (char* block : blocks) {
    CHECK(f.is_retired(block + 24 * kPage, 2));
    CHECK(
        std::all_of(block + 24 * kPage, block + 26 * kPage, [](char byte) { return byte == 'p'; }));
  }
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a block with a hole is not moved, and is resized where it lies") {
  Program f;
  char* const block = f.malloc(600);
  f.destroy(block + 300 * kPage, 10);
  CHECK(f.tested->blocks().move(block, 1200 * kPage) == nullptr);
  const Account before(f);
  CHECK(f.tested->blocks().resize(block, 305 * kPage));  // its end reaches through the hole
  CHECK(f.tested->blocks().size_of(block) == 305 * kPage);
  CHECK(before.lack(0, 290));
  CHECK(f.tested.unsound() == "");
  // A block cannot grow over destroyed pages.
  CHECK_FALSE(f.tested->blocks().resize(block, 400 * kPage));
  CHECK(f.tested->blocks().resize(block, 200 * kPage));
  CHECK_FALSE(f.has_hole(block, 200));
  CHECK(f.tested->blocks().resize(block, 300 * kPage));
  CHECK_FALSE(f.tested->blocks().resize(block, 301 * kPage));
  CHECK_FALSE(f.has_hole(block, 300));
  f.tested->blocks().freed().drain(true);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a block that shrinks by little keeps no hole for when it grows again") {
  for (const bool is_shut : {false, true}) {
    Program f;
    char* const block = f.malloc(100);
    if (is_shut) {
      f.shut(block + 97 * kPage, 2);
    } else {
      f.destroy(block + 97 * kPage, 2);
    }
    CHECK(f.tested->blocks().resize(block, 95 * kPage));
    if (f.tested->blocks().resize(block, 100 * kPage)) {
      CHECK_FALSE(f.has_hole(block, 100));
      memset(block, 'x', 100 * kPage);
    }
    CHECK(f.tested->blocks().size_of(block) == (is_shut ? 100 : 95) * kPage);
    CHECK(f.tested.unsound() == "");
  }
}

TEST_CASE("shut pages stay the heap's, are refused to devices, and are not moved") {
  Program f;
  char* const block = f.malloc(600);
  const Account before(f);
  f.shut(block + 10 * kPage, 1);
  CHECK(before.lack(0, 0));
  CHECK(f.has_hole(block, 600));
  CHECK(f.has_hole(block + 10 * kPage));
  CHECK_FALSE(f.has_hole(block, 10));
  CHECK_FALSE(f.has_hole(block + 11 * kPage, 589));
  CHECK_FALSE(f.is_retired(block, 600));
  CHECK(f.witness.holes.size() == 1);
  CHECK(f.tested->blocks().move(block, 1200 * kPage) == nullptr);
  const uint64_t changes = f.tested->marks().changes();
  f.open(block + 10 * kPage, 1);
  CHECK_FALSE(f.has_hole(block, 600));
  CHECK(f.tested->marks().changes() != changes);  // those who were refused them look again
  CHECK(before.lack(0, 0));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a block that is freed shut is malloc'd open") {
  Program f;
  for (int round = 0; round < 50; ++round) {
    char* const block = f.malloc(20);
    memset(block, 'x', 20 * kPage);
    f.shut(block, 1);
    f.shut(block + 19 * kPage, 1);
    if (round % 2 == 0) f.destroy(block + 5 * kPage, 1);
    REQUIRE(f.tested.free(block));
    CHECK_FALSE(f.has_hole(block, 5));
    CHECK_FALSE(f.has_hole(block + 6 * kPage, 14));
  }
  CHECK(f.live() == 0);
  CHECK(f.lost() == 25 * kPage);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("an extent that is freed shut is taken open, and so is exposed memory") {
  Program f;
  char* const extent = f.take_extent(20);
  f.shut(extent + 3 * kPage, 2);
  CHECK(f.has_hole(extent, 20));
  REQUIRE(f.tested.give(extent, 20 * kPage));
  CHECK_FALSE(f.has_hole(extent, 20));
  char* const block = f.malloc_exposed(20);
  f.shut(block + 3 * kPage, 2);
  CHECK(f.has_hole(block, 20));
  REQUIRE(f.tested.free(block));
  CHECK_FALSE(f.has_hole(block, 20));
  memset(f.take_extent(20), 'x', 20 * kPage);
  memset(f.malloc_exposed(20), 'x', 20 * kPage);
  CHECK(f.lost() == 0);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("memory that cannot be opened when it is freed is never handed out") {
  Program f;
  char* const block = f.malloc(20);
  f.shut(block + 3 * kPage, 2);
  const Account before(f);
  fake::machine().gives_rights = false;
  REQUIRE(f.tested.free(block));
  CHECK(f.is_retired(block + 3 * kPage, 2));
  CHECK(f.live() == 0);
  CHECK(before.held - f.held() == f.lost() - before.lost);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("shut pages may be destroyed, and are the heap's no more") {
  Program f;
  char* const block = f.malloc(100);
  f.shut(block + 10 * kPage, 4);
  const Account before(f);
  f.destroy(block + 8 * kPage, 4);
  CHECK(before.lack(4, 4));
  CHECK(f.is_retired(block + 8 * kPage, 4));
  CHECK_FALSE(f.is_retired(block + 12 * kPage, 2));
  CHECK(f.has_hole(block + 12 * kPage));
  // Opening the range does not bring destroyed pages back.
  f.open(block + 10 * kPage, 4);
  CHECK(f.are_retired(block, 100, 8, 4));
  CHECK(f.tested.unsound() == "");
  f.destroy(block + 20 * kPage, 1);
  CHECK(f.tested.free(block));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a hole that only has shut pages takes them") {
  Program f;
  char* const block = f.malloc(100);
  f.shut(block + 10 * kPage, 4);
  const Account before(f);
  f.destroy(block + 10 * kPage, 4);
  CHECK(before.lack(4, 4));
  CHECK(f.are_retired(block, 100, 10, 4));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("after a call that was refused all of a block is as it was") {
  for (const char* kind : {"CAP=1G", "CAP=0"}) {
    for (const auto& [from, count] :
         {std::pair<size_t, size_t>{0, 1}, {99, 1}, {40, 30}, {0, 100}}) {
      Program f({"GATHER=always", kind});
      char* const block = f.malloc(100);
      memset(block, 'x', 100 * kPage);
      const Account before(f);
      f.try_to_destroy(block + from * kPage, count);
      CHECK(before.lack(0, 0));
      CHECK(f.are_retired(block, 100, 0, 0));
      CHECK(std::all_of(block, block + 100 * kPage, [](char byte) { return byte == 'x'; }));
      CHECK(f.tested.unsound() == "");
      CHECK(f.tested.free(block));
      CHECK(f.tested.unsound() == "");
      CHECK(f.malloc(100) == block);
    }
  }
}

TEST_CASE("a region is there still after a call over all of it was refused") {
  Program f;
  char* const block = f.malloc(100);
  const Region& region = f.tested.region_of(block);
  auto* const whole = reinterpret_cast<char*>(region.base);
  const size_t pages = region.length / kPage;
  REQUIRE(f.malloc(pages - 100) != nullptr);
  REQUIRE(f.tested->regions().size() == 1);
  const Account before(f);
  f.try_to_destroy(whole, pages);
  CHECK(before.lack(0, 0));
  CHECK(f.tested->regions().find(block) == &region);
  CHECK_FALSE(f.has_hole(whole, pages));
  CHECK(f.witness.retired.empty());
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("pages that are shut are so still after a call over them was refused") {
  Program f;
  char* const block = f.malloc(100);
  f.shut(block + 10 * kPage, 2);
  const Account before(f);
  f.try_to_destroy(block + 5 * kPage, 20);
  CHECK(before.lack(0, 0));
  CHECK_FALSE(f.is_retired(block, 100));
  CHECK(f.has_hole(block + 10 * kPage));
  CHECK(f.has_hole(block + 11 * kPage));
  CHECK_FALSE(f.has_hole(block, 10));
  CHECK_FALSE(f.has_hole(block + 12 * kPage, 88));
  CHECK(f.tested.unsound() == "");
  // Freeing makes them accessible.
  REQUIRE(f.tested.free(block));
  char* const again = f.malloc(100);
  REQUIRE(again == block);
  memset(again, 'x', 100 * kPage);
}

TEST_CASE("a call that is refused beside one that is not takes nothing") {
  Program f;
  char* const block = f.malloc(100);
  const Region& region = f.tested.region_of(block);
  auto* const whole = reinterpret_cast<char*>(region.base);
  const size_t pages = region.length / kPage;
  const size_t half = pages / 2;
  REQUIRE(f.malloc(pages - 100) != nullptr);
  REQUIRE(f.tested->regions().size() == 1);
  const Account before(f);
  // By two threads at once, over the whole range.
  const ProgramHoles::Hole refused = f.begin(whole, half);
  const ProgramHoles::Hole done = f.begin(whole + half * kPage, pages - half);
  fake::destroy(whole + half * kPage, (pages - half) * kPage);
  f.tested->holes().end(done, "munmap");
  f.tested->holes().undo(refused);
  CHECK(before.lack(pages - half, pages - half));
  CHECK(f.tested->regions().find(block) == &region);
  CHECK(f.witness.retired.empty());
  CHECK(f.are_retired(whole, pages, half, pages - half));
  CHECK(f.tested.unsound() == "");
  f.destroy(whole, half);
  CHECK(f.witness.retired.size() == 1);
  CHECK(f.held() == 0);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a refused call over an older hole leaves what is gone gone, and takes nothing else") {
  Program f;
  char* const block = f.malloc(100);
  f.destroy(block + 10 * kPage, 2);
  f.try_to_destroy(block + 10 * kPage, 2);
  f.try_to_destroy(block + 5 * kPage, 50);
  f.try_to_destroy(block, 100);
  CHECK(f.are_retired(block, 100, 10, 2));
  CHECK(f.lost() == 2 * kPage);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a child of fork has its parent's holes, and makes its own") {
  Program f;
  char* const block = f.malloc(100);
  char* const extent = f.take_extent(100);
  f.destroy(block + 10 * kPage, 2);
  f.shut(block + 20 * kPage, 1);
  const Account before(f);
  const test::ChildEnd end = f.tested.run_child([&] {
    if (!f.is_retired(block + 10 * kPage, 2) || !f.has_hole(block + 20 * kPage)) return false;
    f.destroy(block + 30 * kPage, 5);
    f.destroy(extent + 30 * kPage, 5);
    if (f.held() != before.held - 10 * kPage || f.pinned() != 0) return false;
    f.try_to_destroy(block + 50 * kPage, 10);
    if (f.held() != before.held - 10 * kPage || f.is_retired(block + 50 * kPage)) return false;
    if (!validate(*f.tested) || f.held() != f.tested.opened()) return false;
    if (!f.tested->blocks().release(block) || !f.tested->extents().release(extent, 100 * kPage))
      return false;
    if (f.live() != 0 || !validate(*f.tested)) return false;
    for (int i = 0; i < 100; ++i) {
      char* const got = f.malloc(10);
      memset(got, 'x', 10 * kPage);
      if (f.has_hole(got, 10)) return false;
    }
    return validate(*f.tested) && f.held() == f.tested.opened();
  });
  CHECK(end.exited_well());
  CHECK(before.lack(0, 0));
  CHECK_FALSE(f.has_hole(block + 30 * kPage, 70));
  CHECK_FALSE(f.has_hole(extent, 100));
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("what a destroyed page held may be taken anew from the budget") {
  Program f({"GATHER=always", "MEMORY_CAP=8M", "STRICT=on"});
  std::vector<char*> blocks;
  while (char* const block = f.malloc(100)) blocks.push_back(block);
  REQUIRE(f.held() <= 8 * kMiB);
  for (char* block : blocks) f.destroy(block, 100);
  size_t again = 0;
  while (f.malloc(100) != nullptr) ++again;
  CHECK(again >= blocks.size() - 1);
  CHECK(f.held() <= 8 * kMiB);
  CHECK(f.tested.unsound() == "");
}

namespace {

// The naive model: a list of objects, and the state of each of their pages.
class Model {
 public:
  Model(Program& f, uint32_t seed) : program_(f), random_(seed) {}

  bool step() {
    const size_t what = below(20);
    if (live_.empty() || (live_.size() < 60 && what < 7)) return take_one();
    if (what < 10 || live_.size() > 100) return free_one();
    Object& object = live_[below(live_.size())];
    if (what < 13) return resize(object);
    return change(object);
  }

  bool is_as_known() {
    for (const Object& object : live_) {
      if (!holds(object)) return false;
    }
    for (const auto& [page, byte] : gone_) {
      if (!program_.is_retired(page)) return fail("what is gone is not retired");
      if (*page != byte || page[kPage - 1] != byte) return fail("what the program mapped changed");
    }
    if (program_.lost() != gone_.size() * kPage) return fail("other bytes are lost");
    return true;
  }

  bool finish() {
    while (!live_.empty()) {
      if (!free_one()) return false;
    }
    return true;
  }

  const std::string& why() const { return why_; }
  size_t holes() const { return gone_.size(); }
  size_t refusals() const { return refusals_; }

 private:
  enum class Kind { kBlock, kExtent, kExposed };
  enum class Page : uint8_t { kGood, kGone, kShut };
  struct Object {
    char* base;
    Kind kind;
    uint32_t id;
    std::vector<Page> pages;
    size_t size() const { return pages.size() * kPage; }
  };

  size_t below(size_t bound) { return random_() % bound; }
  bool fail(const char* why) {
    why_ = why;
    return false;
  }

  static uint64_t mark_of(const Object& object, size_t page) {
    return object.id * 0x9e3779b97f4a7c15U + page;
  }
  static void mark(const Object& object, size_t page) {
    const uint64_t word = mark_of(object, page);
    memcpy(object.base + page * kPage + 128, &word, sizeof word);
  }
  static void mark(const Object& object) {
    for (size_t page = 0; page < object.pages.size(); ++page) {
      if (object.pages[page] == Page::kGood) mark(object, page);
    }
  }

  bool holds(const Object& object) {
    for (size_t page = 0; page < object.pages.size(); ++page) {
      const char* const at = object.base + page * kPage;
      const Page state = object.pages[page];
      if (program_.is_retired(at) != (state == Page::kGone)) return fail("retired, or not");
      if (program_.has_hole(at) != (state != Page::kGood)) return fail("a hole, or none");
      const uint64_t word = mark_of(object, page);
      if (state == Page::kGood && memcmp(at + 128, &word, sizeof word) != 0) {
        return fail("bytes of what is live have changed");
      }
    }
    if (object.kind != Kind::kExtent &&
        program_.tested->blocks().size_of(object.base) != object.size()) {
      return fail("of another size");
    }
    return true;
  }

  bool is_fresh(const Object& object) {
    for (size_t page = 0; page < object.pages.size(); ++page) {
      if (gone_.count(object.base + page * kPage) != 0) return fail("what is gone is given out");
    }
    if (program_.has_hole(object.base, object.pages.size())) return fail("given out with a hole");
    return true;
  }

  char* take(Kind kind, size_t pages) {
    Heap& heap = *program_.tested;
    bool zero = false;
    void* got = nullptr;
    if (kind == Kind::kBlock) got = heap.blocks().allocate(pages * kPage, 1, below(4) == 0);
    if (kind == Kind::kExposed) got = heap.blocks().allocate_exposed(pages * kPage, 1);
    if (kind == Kind::kExtent) got = heap.extents().allocate(nullptr, pages * kPage, kPage, &zero);
    return static_cast<char*>(got);
  }

  bool take_one() {
    const auto kind = static_cast<Kind>(below(6) == 0 ? 2 : below(2));
    const size_t pages = below(10) == 0 ? 1 + below(600) : 9 + below(40);
    Object object{take(kind, pages), kind, ++next_, std::vector<Page>(pages, Page::kGood)};
    if (object.base == nullptr) return true;  // a limit was reached
    if (!is_fresh(object)) return false;
    mark(object);
    live_.push_back(object);
    return true;
  }

  bool give(const Object& object) {
    Heap& heap = *program_.tested;
    if (object.kind != Kind::kExtent) {
      return heap.blocks().release(object.base) || fail("a live block was not taken back");
    }
    const size_t first = below(2) == 0 ? object.pages.size() / 2 * kPage : 0;
    return ((first == 0 || heap.extents().release(object.base, first)) &&
            heap.extents().release(object.base + first, object.size() - first)) ||
           fail("a live extent was not taken back");
  }

  bool free_one() {
    std::swap(live_[below(live_.size())], live_.back());
    const Object object = live_.back();
    live_.pop_back();
    return holds(object) && give(object);
  }

  // As realloc does: in place, by moving, or by copying what is readable.
  bool resize(Object& object) {
    if (object.kind == Kind::kExtent) return true;
    const size_t before = object.pages.size();
    const size_t pages = below(2) == 0 ? before + 1 + below(300) : 9 + below(before);
    LargeBlocks& blocks = program_.tested->blocks();
    const bool has_hole = program_.has_hole(object.base, before);
    if (blocks.resize(object.base, pages * kPage)) {
      object.pages.resize(pages, Page::kGood);
    } else if (void* moved = blocks.move(object.base, pages * kPage)) {
      if (has_hole) return fail("what has holes was moved");
      object.base = static_cast<char*>(moved);
      object.pages.resize(pages, Page::kGood);
    } else {
      Object copy{take(object.kind, pages), object.kind, object.id,
                  std::vector<Page>(pages, Page::kGood)};
      if (copy.base == nullptr) return true;
      if (!is_fresh(copy) || !holds(object) || !give(object)) return false;
      mark(copy);
      object = copy;
    }
    for (size_t page = 0; page < pages; ++page) {
      if (page >= before && object.pages[page] == Page::kGood) mark(object, page);
    }
    return holds(object);
  }

  bool change(Object& object) {
    const size_t page = below(object.pages.size());
    const size_t count = 1 + below(below(8) == 0 ? object.pages.size() - page
                                                 : std::min<size_t>(object.pages.size() - page, 3));
    char* const at = object.base + page * kPage;
    const auto first = object.pages.begin() + static_cast<long>(page);
    const auto last = first + static_cast<long>(count);
    const bool is_any_gone = std::find(first, last, Page::kGone) != last;
    switch (below(5)) {
      case 0:
        destroy(at, count);
        std::fill(first, last, Page::kGone);
        break;
      case 1:
        if (is_any_gone && count > 16) break;  // more holes than are tracked
        program_.try_to_destroy(at, count);
        ++refusals_;
        break;
      case 2:
      case 3:
        if (is_any_gone) break;
        program_.shut(at, count);
        std::fill(first, last, Page::kShut);
        break;
      default:
        if (is_any_gone) break;
        program_.open(at, count);
        for (size_t i = page; i < page + count; ++i) {
          if (object.pages[i] == Page::kShut) object.pages[i] = Page::kGood;
        }
    }
    return holds(object);
  }

  void destroy(char* at, size_t count) {
    program_.destroy(at, count);
    const auto byte = static_cast<char>('a' + below(26));
    memset(at, byte, count * kPage);
    for (size_t page = 0; page < count; ++page) gone_[at + page * kPage] = byte;
  }

  Program& program_;
  std::mt19937 random_;
  uint32_t next_ = 0;
  size_t refusals_ = 0;
  std::vector<Object> live_;
  std::map<char*, char> gone_;
  std::string why_;
};

}  // namespace

TEST_CASE("a heap with holes does what a list of pages would") {
  struct Setting {
    const char* name;
    std::initializer_list<const char*> options;
  };
  const Setting settings[] = {
      {"gathered always", {"GATHER=always", "MEMORY_CAP=256M"}},
      {"populated", {"GATHER=always", "POPULATE=now", "HUGE=thp", "MEMORY_CAP=256M"}},
      {"half of it pinned", {"GATHER=always", "CAP=8M", "MEMORY_CAP=64M", "SPARSE_FROM=2M"}},
      {"as it comes", {"MEMORY_CAP=128M"}},
  };
  for (const Setting& setting : settings) {
    Program f(setting.options);
    Model model(f, 11);
    INFO(setting.name);
    for (size_t i = 0; i < test::rounds(10'000); ++i) {
      if (!model.step()) FAIL(model.why() << " at step " << i);
      if (i % 100 != 99) continue;
      const std::string why = f.tested.unsound();
      if (!why.empty()) FAIL(why << " at step " << i);
      if (!model.is_as_known()) FAIL(model.why() << " at step " << i);
      if (i % 2000 != 1999) continue;
      const test::ChildEnd end = f.tested.run_child([&] {
        bool good = validate(*f.tested) && model.is_as_known();
        for (int j = 0; good && j < 300; ++j) good = model.step();
        good = good && model.is_as_known() && model.finish() && validate(*f.tested);
        if (!good) (void)!write(2, model.why().data(), model.why().size());
        return good && f.live() == 0;
      });
      REQUIRE(end.exited_well());
    }
    CHECK(model.holes() > test::rounds(1000));
    CHECK(model.refusals() > test::rounds(100));
    if (!model.finish()) FAIL(model.why());
    CHECK(f.live() == 0);
    f.tested->blocks().freed().drain(true);
    CHECK(model.is_as_known());
    CHECK(f.tested.unsound() == "");
  }
}

}  // namespace rdmalloc
