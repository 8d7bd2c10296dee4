// Free pages under fresh addresses: contents, books, bounds, and the state after a refusal.
#include <string.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <random>
#include <set>
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

constexpr size_t kPiece = 64 * kKiB;
constexpr size_t kLargest = 4 * kMiB;  // from here on, a request makes a region alone

void write(void* address, size_t size, uint32_t id) {
  auto* words = static_cast<uint32_t*>(address);
  for (size_t page = 0; page < size / kPage; ++page) {
    words[page * (kPage / sizeof id)] = id;
    words[page * (kPage / sizeof id) + 1] = static_cast<uint32_t>(page);
  }
}

bool reads(const void* address, size_t size, uint32_t id) {
  const auto* words = static_cast<const uint32_t*>(address);
  for (size_t page = 0; page < size / kPage; ++page) {
    if (words[page * (kPage / sizeof id)] != id) return false;
    if (words[page * (kPage / sizeof id) + 1] != page) return false;
  }
  return true;
}

// A heap without a free page, allocated in pieces, every other one of which is then freed.
struct Holes {
  explicit Holes(std::initializer_list<const char*> options = {"GATHER=always"},
                 bool exposed = false, size_t pieces = 256)
      : tested(options) {
    tested.boot();
    std::vector<void*> all;
    while (all.size() < pieces || heap_counters(*tested).largest_free >= kPiece) {
      all.push_back(take(exposed));
    }
    for (size_t i = 0; i < all.size(); ++i) {
      write(all[i], kPiece, static_cast<uint32_t>(i + 1));
      if (i % 2 == 0) {
        live[static_cast<uint32_t>(i + 1)] = all[i];
      } else {
        freed.push_back(all[i]);
        REQUIRE(tested.free(all[i]));
      }
    }
    tested->blocks().freed().drain(true);
    held = tested->budget().charges().held();
  }
  void* take(bool exposed) {
    void* got = exposed ? tested.malloc_exposed(kPiece) : tested.malloc(kPiece);
    REQUIRE(got != nullptr);
    return got;
  }
  bool is_intact() const {
    return std::all_of(live.begin(), live.end(),
                       [](const auto& block) { return reads(block.second, kPiece, block.first); });
  }
  size_t free_bytes() const { return freed.size() * kPiece; }

  TestHeap tested;
  std::map<uint32_t, void*> live;
  std::vector<void*> freed;
  size_t held = 0;
};

std::vector<void*> take_pieces(TestHeap& tested, bool touches) {
  std::vector<void*> all;
  for (int i = 0; i < 2048; ++i) {
    all.push_back(tested.malloc(kPiece));
    REQUIRE(all.back() != nullptr);
    if (touches) write(all.back(), kPiece, 1);
  }
  return all;
}

class Witness : public RegionObserver {
 public:
  void on_acquire(const Region& region) noexcept override { acquired.insert(region.base); }
  void on_retire(const Region& region) noexcept override { retired.push_back(region.base); }
  bool has_let_go(const Region&) const noexcept override { return !keeps; }
  void on_fork_child() noexcept override {}

  bool keeps = false;
  std::set<uintptr_t> acquired;
  std::vector<uintptr_t> retired;
};

}  // namespace

TEST_CASE("free pages serve a request that no run of them could, and nothing is acquired") {
  Holes f;
  const size_t wanted = f.free_bytes() / 2;
  const size_t regions = f.tested->regions().size();
  auto* got = static_cast<char*>(f.tested.malloc(wanted));
  REQUIRE(got != nullptr);
  CHECK(f.tested->budget().charges().held() == f.held);
  CHECK(heap_counters(*f.tested).gathered == wanted);
  CHECK(heap_counters(*f.tested).retired == wanted);
  CHECK(f.tested->regions().size() == regions + 1);
  CHECK(f.is_intact());
  CHECK(fake::split_moves() == 0);
  CHECK(f.tested.unsound() == "");
  // Each piece is unchanged.
  std::set<uint32_t> seen;
  for (size_t at = 0; at < wanted; at += kPiece) {
    uint32_t id = 0;
    memcpy(&id, got + at, sizeof id);
    CHECK(reads(got + at, kPiece, id));
    CHECK(id % 2 == 0);
    seen.insert(id);
  }
  CHECK(seen.size() == wanted / kPiece);
}

TEST_CASE("what small requests miss is gathered many pieces at a time, into one region") {
  Holes f({}, false, 1024);
  constexpr size_t kWanted = 512 * kKiB;
  constexpr size_t kAtOnce = 16 * kMiB;
  const size_t regions = f.tested->regions().size();
  for (size_t got = 0; got < kAtOnce; got += kWanted) REQUIRE(f.tested.malloc(kWanted) != nullptr);
  CHECK(heap_counters(*f.tested).gathered == kAtOnce);
  CHECK(f.tested->regions().size() == regions + 1);
  CHECK(f.tested->budget().charges().held() == f.held);
  CHECK(f.is_intact());
  CHECK(f.tested.unsound() == "");
}

TEST_CASE(
    "free pages that nobody touched stay, and new ones come, while most of the heap is live") {
  for (const bool touches : {false, true}) {
    TestHeap tested;
    tested.boot();
    const std::vector<void*> all = take_pieces(tested, touches);
    for (size_t i = 0; i < all.size(); i += 3) REQUIRE(tested.free(all[i]));
    tested->blocks().freed().drain(true);
    REQUIRE(tested.malloc(4 * kMiB) != nullptr);
    CHECK((heap_counters(*tested).gathered != 0) == touches);
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("free pages that take memory are moved, though the longest runs are untouched ones") {
  TestHeap tested;
  tested.boot();
  const std::vector<void*> touched = take_pieces(tested, true);
  constexpr size_t kLong = 3 * kMiB;
  std::vector<void*> untouched;
  for (int i = 0; i < 2; ++i) {
    untouched.push_back(tested.malloc(kLong));
    REQUIRE(untouched.back() != nullptr);
    REQUIRE(tested.malloc(kPiece) != nullptr);  // keeps the runs apart
  }
  for (size_t i = 0; i < touched.size(); i += 3) REQUIRE(tested.free(touched[i]));
  for (void* const block : untouched) REQUIRE(tested.free(block));
  tested->blocks().freed().drain(true);
  const size_t held = tested->budget().charges().held();
  REQUIRE(heap_counters(*tested).largest_free >= kLong);

  REQUIRE(tested.malloc(4 * kMiB) != nullptr);
  CHECK(tested->budget().charges().held() == held);
  CHECK(heap_counters(*tested).gathered == 4 * kMiB);
  // The longest stayed.
  CHECK(heap_counters(*tested).largest_free >= kLong);
  CHECK(tested.unsound() == "");
}

TEST_CASE("free pages that nobody touched are moved where no more can be pinned") {
  TestHeap tested;
  fake::machine().lock = {64 * kMiB, 64 * kMiB, false};
  tested.boot();
  std::vector<void*> all;
  while (tested->budget().charges().held() < 60 * kMiB ||
         heap_counters(*tested).largest_free >= kPiece) {
    all.push_back(tested.malloc(kPiece));
    REQUIRE(all.back() != nullptr);
  }
  for (size_t i = 0; i < all.size(); i += 3) REQUIRE(tested.free(all[i]));
  tested->blocks().freed().drain(true);
  const void* got = tested.malloc(8 * kMiB);
  REQUIRE(got != nullptr);
  CHECK(tested->regions().find(got)->locked);
  CHECK(heap_counters(*tested).gathered != 0);
}

namespace {

struct Left {
  size_t most_held = 0;
  size_t gathered = 0;
  size_t malloced = 0;
};

// At least so long after the last, so that the processors' caches take the program for one that
// uses its blocks, however fast the machine is and whatever else it does.
void wait_for_next_block() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point last;
  while (Clock::now() - last < std::chrono::microseconds(5)) {
  }
  last = Clock::now();
}

// A program that goes on leaving holes for so many rounds, and takes that long for each block.
// It uses up more addresses than a small window has.
Left leave_holes(int rounds, uint64_t ns) {
  TestHeap tested({fake::has_whole_window() ? "WINDOW=64G" : "WINDOW=8G"});
  fake::machine().move_takes_ns = 10'000;
  tested.boot();
  std::mt19937 random(7);
  std::vector<void*> blocks(256, nullptr);
  const auto replace = [&](int times) {
    size_t malloced = 0;
    for (int i = 0; i < times; ++i) {
      void*& block = blocks[random() % blocks.size()];
      if (block != nullptr) REQUIRE(tested.free(block));
      const size_t size = 64 * kKiB + random() % (900 * kKiB);
      block = tested.malloc(size);
      REQUIRE(block != nullptr);
      write(block, size, 1);
      fake::compute(ns);
      wait_for_next_block();
      malloced += size;
    }
    return malloced;
  };
  replace(40'000);
  Left left;
  const size_t gathered_before = heap_counters(*tested).gathered;
  for (int round = 0; round < rounds; ++round) {
    left.malloced += replace(test::rounds(20'000));
    const size_t held = tested->budget().charges().held();
    CHECK(held - held / 4 < heap_counters(*tested).peak_live);
    left.most_held = std::max(left.most_held, held);
  }
  left.gathered = heap_counters(*tested).gathered - gathered_before;
  CHECK(tested.unsound() == "");
  return left;
}

}  // namespace

TEST_CASE("a program that goes on leaving such holes has a sixth of the heap idle, and few moves") {
  const Left busy = leave_holes(10, 4'000);
  CHECK(busy.gathered > 0);
  CHECK(busy.gathered < busy.malloced / 20);
  // Less is idle where moving takes little of its time, and uses up more addresses.
  if (!fake::needs_whole_window()) return;
  const Left slow = leave_holes(3, 1'000'000);
  CHECK(slow.gathered < slow.malloced / 12);
  CHECK(slow.most_held < busy.most_held);
}

TEST_CASE(
    "where mappings run short, pages are given to the kernel for new ones, in fewer mappings") {
  for (const bool keeps : {false, true}) {
    TestHeap tested;
    fake::machine().most_mappings = 8 * 256;
    tested.boot();
    Witness device;
    device.keeps = keeps;
    REQUIRE(ok(tested->publisher().attach(&device)));
    std::mt19937 random(11);
    std::vector<void*> blocks(512, nullptr);
    for (int i = 0; i < 60'000; ++i) {
      void*& block = blocks[random() % blocks.size()];
      if (block != nullptr) REQUIRE(tested.free(block));
      const size_t size = 32 * kKiB + random() % (400 * kKiB);
      block = tested.malloc(size);
      REQUIRE(block != nullptr);
      write(block, size, 1);
    }
    const auto now = heap_counters(*tested);
    const size_t held = tested->budget().charges().held();
    INFO("held " << held << " of " << now.peak_live);
    // A device that keeps its registrations would have the pages twice.
    CHECK((now.retired > now.gathered) == !keeps);
    if (!keeps) CHECK(held - held / 4 < now.peak_live);
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("where mappings run short, runs that would not be worth moving are not left idle") {
  if (kPage > 48 * kKiB) {
    WARN("skipped: each run is worth moving where a page is that large");
    return;
  }
  TestHeap tested;
  fake::machine().most_mappings = 8 * 1024;
  tested.boot();
  std::vector<void*> small;
  std::vector<void*> large;
  for (int i = 0; i < 512; ++i) {
    for (const auto& [blocks, size] : {std::pair(&small, 48 * kKiB), {&large, 128 * kKiB}}) {
      blocks->push_back(tested.malloc(size));
      write(blocks->back(), size, 1);
      REQUIRE(tested.malloc(36 * kKiB) != nullptr);  // keeps them apart
    }
  }
  for (void* block : large) REQUIRE(tested.free(block));
  for (int i = 0; i < 7; ++i) REQUIRE(tested.malloc(8 * kMiB) != nullptr);
  const auto before = heap_counters(*tested);
  const size_t held = tested->budget().charges().held();
  REQUIRE(before.retired > before.gathered);  // pages are given to the kernel from here on
  for (void* block : small) REQUIRE(tested.free(block));
  for (int i = 0; i < 3; ++i) REQUIRE(tested.malloc(8 * kMiB) != nullptr);
  CHECK(tested->budget().charges().held() < held + 4 * kMiB);
  CHECK(tested.unsound() == "");
}

TEST_CASE("gathering leaves the addresses that growing needs") {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    TestHeap tested({"WINDOW=512M"});
    tested.boot();
    std::mt19937 random(seed);
    std::vector<void*> blocks;
    size_t live = 0;
    std::vector<size_t> sizes;
    // As much is live as a quarter of the window, then a third.
    for (const size_t most : {128 * kMiB, 170 * kMiB}) {
      for (int i = 0; i < 4000; ++i) {
        const size_t size = 64 * kKiB + random() % (4000 * kKiB);
        while (!blocks.empty() && live + size > most) {
          const size_t any = random() % blocks.size();
          REQUIRE(tested.free(blocks[any]));
          live -= sizes[any];
          blocks[any] = blocks.back();
          sizes[any] = sizes.back();
          blocks.pop_back();
          sizes.pop_back();
        }
        blocks.push_back(tested.malloc(size));
        REQUIRE(blocks.back() != nullptr);
        sizes.push_back(size);
        live += size;
      }
    }
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("moving pages takes no more time than all else, of which a second at most is saved up") {
  constexpr uint64_t kMs = 1'000'000;
  Holes f({}, false, 2048);
  // Each request needs pages from many holes.
  const auto gathers = [&] {
    const size_t before = heap_counters(*f.tested).gathered;
    REQUIRE(f.tested.malloc(kLargest) != nullptr);
    return heap_counters(*f.tested).gathered > before;
  };
  REQUIRE(gathers());
  fake::machine().move_takes_ns = 11 * kMs;
  CHECK(gathers());  // with what it has at first
  CHECK_FALSE(gathers());
  fake::compute(kMs);
  CHECK_FALSE(gathers());
  fake::machine().move_takes_ns = 1001 * kMs;
  fake::compute(1'000'000 * kMs);
  CHECK(gathers());
  CHECK_FALSE(gathers());
}

TEST_CASE("what gathered pages held before is not taken for zero") {
  Holes f;
  const size_t wanted = f.free_bytes() / 2;
  const void* got = f.tested.malloc(wanted, 1, true);
  REQUIRE(got != nullptr);
  CHECK(heap_counters(*f.tested).gathered == wanted);
  CHECK(fake::reads_zero(got, wanted));
}

TEST_CASE("new pages come for what is missing, and only for that") {
  Holes f;
  const size_t wanted = f.free_bytes() * 2;
  const void* got = f.tested.malloc(wanted);
  REQUIRE(got != nullptr);
  CHECK(heap_counters(*f.tested).gathered == f.free_bytes());
  CHECK(f.tested->budget().charges().held() >= f.held + wanted - f.free_bytes());
  CHECK(f.tested->budget().charges().held() < f.held + wanted);
  CHECK(f.tested.region_of(got).locked);
  CHECK(f.is_intact());
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("an address that lost its page is nobody's: no lookup, no block, no allocation has it") {
  Holes f;
  REQUIRE(f.tested.malloc(f.free_bytes()) != nullptr);
  CHECK(heap_counters(*f.tested).retired == f.free_bytes());
  for (void* address : f.freed) {
    CHECK(f.tested.is_retired(address, kPiece));
    CHECK(f.tested.is_retired(static_cast<char*>(address) + kPiece - kPage, kPage));
    CHECK(fake::left_in(address, kPiece) == kPiece);
    CHECK(f.tested->blocks().size_of(address) == 0);
    CHECK_FALSE(f.tested->blocks().release(address));
    CHECK_FALSE(f.tested->blocks().resize(address, kPiece));
    bool zero = false;
    CHECK(f.tested->extents().allocate(address, kPage, kPage, &zero) == nullptr);
  }
  for (const auto& [id, address] : f.live) CHECK_FALSE(f.tested.is_retired(address, kPiece));
  // A live block does not grow into the retired range behind it.
  CHECK_FALSE(f.tested.resize(f.live.begin()->second, 2 * kPiece));
  std::set<void*> gone(f.freed.begin(), f.freed.end());
  for (int i = 0; i < 2000; ++i) {
    void* got = f.tested.malloc(kPiece);
    REQUIRE(got != nullptr);
    REQUIRE(gone.count(got) == 0);
    REQUIRE_FALSE(f.tested.is_retired(got, kPiece));
  }
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("jemalloc's extents and blocks are made of each other's free pages") {
  Holes f;
  const void* extent = f.tested.take(f.free_bytes());
  REQUIRE(extent != nullptr);
  CHECK(f.tested.region_of(extent).use == RegionUse::kExtents);
  CHECK(heap_counters(*f.tested).gathered == f.free_bytes());
  CHECK(f.tested->budget().charges().held() < f.held + f.free_bytes());
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("exposed pages are gathered among themselves only") {
  SECTION("no others for an exposed block") {
    Holes f;
    const void* got = f.tested.malloc_exposed(f.free_bytes());
    REQUIRE(got != nullptr);
    CHECK(heap_counters(*f.tested).gathered == 0);
    CHECK(f.tested.unsound() == "");
  }
  SECTION("none of them for others") {
    Holes f({"GATHER=always"}, true);
    REQUIRE(f.tested.malloc(f.free_bytes()) != nullptr);
    REQUIRE(f.tested.take(f.free_bytes()) != nullptr);
    for (void* address : f.freed) REQUIRE_FALSE(f.tested.is_retired(address, kPiece));
    CHECK(f.is_intact());
    CHECK(f.tested.unsound() == "");
  }
  SECTION("for each other") {
    Holes f({"GATHER=always"}, true);
    const size_t before = heap_counters(*f.tested).gathered;
    const size_t wanted = f.free_bytes() / 2;
    const void* got = f.tested.malloc_exposed(wanted);
    REQUIRE(got != nullptr);
    CHECK(heap_counters(*f.tested).gathered >= before + wanted);
    CHECK(f.tested->budget().charges().held() == f.held);
    CHECK(f.tested.region_of(got).exposed);
    CHECK(f.tested.region_of(got).locked);
    CHECK(f.is_intact());
    CHECK(f.tested.unsound() == "");
  }
}

TEST_CASE("nothing is gathered where regions are sealed, or it is switched off") {
  for (const char* off : {"SEAL=on", "GATHER=off"}) {
    Holes f({"GATHER=always", off});
    REQUIRE(f.tested.malloc(f.free_bytes() / 2) != nullptr);
    CHECK(heap_counters(*f.tested).gathered == 0);
    CHECK(heap_counters(*f.tested).retired == 0);
    CHECK(fake::calls(Call::kMove) == 0);
    CHECK(f.tested.unsound() == "");
  }
}

TEST_CASE("a request aligned beyond a granule is not gathered for") {
  Holes f;
  const void* got = f.tested.malloc(f.free_bytes() / 2, 4 * kMiB);
  REQUIRE(got != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(got) % (4 * kMiB) == 0);
  CHECK(heap_counters(*f.tested).gathered == 0);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("overflow is gathered with overflow, locked pages with locked ones") {
  Holes f({"GATHER=always", "CAP=0"});
  const void* got = f.tested.malloc(f.free_bytes());
  REQUIRE(got != nullptr);
  CHECK(f.tested.region_of(got).kind == RegionKind::kOverflow);
  CHECK(heap_counters(*f.tested).gathered == f.free_bytes());
  CHECK(fake::locked() == 0);
  CHECK(f.is_intact());
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("gathering stops at its share of the kernel's mappings") {
  for (const size_t most : {64, 400, 1600}) {
    TestHeap tested({"GATHER=always"});
    fake::machine().most_mappings = most;
    tested.boot();
    // Single pages, scattered as badly as possible.
    std::vector<char*> all;
    for (size_t i = 0; i < 6000; ++i) all.push_back(static_cast<char*>(tested.take(kPage)));
    for (size_t round = 2; round < 6; ++round) {
      for (size_t i = 0; i < all.size(); i += round) {
        if (all[i] != nullptr) REQUIRE(tested.give(all[i], kPage));
        all[i] = nullptr;
      }
      REQUIRE(tested.take(os::page_ceil(1200 * kKiB)) != nullptr);
      REQUIRE(tested.malloc(1200 * kKiB) != nullptr);
    }
    // An eighth of them, plus those that existed before: two per region, and the block table's.
    const size_t others = 2 * tested->regions().size() + 4;
    // Larger pages take more regions, whose own mappings leave no room for moving.
    const bool has_room = kPage == 4 * kKiB ? most > 64 : others < most / 8;
    if (has_room) CHECK(heap_counters(*tested).gathered != 0);
    CHECK(fake::mappings() <= most / 8 + others);
    CHECK(fake::split_moves() == 0);
    CHECK(tested.unsound() == "");
  }
}

// Every other page is free, no more may be held, and hardly any mapping may be made.
struct Crumbs {
  explicit Crumbs(Witness* witness = nullptr, size_t cap = 16 * kMiB)
      : tested({("MEMORY_CAP=" + std::to_string(cap)).c_str()}) {
    fake::machine().most_mappings = 64;
    tested.boot();
    if (witness != nullptr) REQUIRE(ok(tested->publisher().attach(witness)));
    std::vector<void*> all;
    while (void* const page = tested.take(kPage)) all.push_back(page);
    for (size_t i = 0; i < all.size(); i += 2) {
      if (i + 1 < all.size()) write(all[i + 1], kPage, static_cast<uint32_t>(i + 1));
      REQUIRE(tested.give(all[i], kPage));
      if (i + 1 < all.size()) live[static_cast<uint32_t>(i + 1)] = all[i + 1];
    }
  }
  bool is_intact() const {
    return std::all_of(live.begin(), live.end(),
                       [](const auto& page) { return reads(page.second, kPage, page.first); });
  }
  TestHeap tested;
  std::map<uint32_t, void*> live;
};

TEST_CASE("pages that cannot be moved for want of mappings are given up, and come anew") {
  Crumbs f;
  bool zero = true;
  const auto* got = static_cast<const char*>(f.tested.take(kMiB, kPage, &zero));
  REQUIRE(got != nullptr);
  CHECK(zero);
  CHECK(std::all_of(got, got + kMiB, [](char byte) { return byte == 0; }));
  CHECK(f.tested.malloc(3 * kMiB) != nullptr);
  CHECK(f.is_intact());
  CHECK(heap_counters(*f.tested).gathered == 0);
  CHECK(heap_counters(*f.tested).retired >= 4 * kMiB);
  CHECK(f.tested->budget().charges().held() <= 16 * kMiB);
  CHECK(f.tested.unsound() == "");
}

// The tables of the window that mapped pages once and map none now, and how many of them are left.
struct PageTables {
  explicit PageTables(Heap& tested) {
    const Window& window = tested.window();
    const size_t reach = os::page_table_reach();
    const uintptr_t end = window.base() + window.size();
    for (uintptr_t at = os::align_up(window.base(), reach); at + reach <= end; at += reach) {
      if (fake::left_in(pointer(at), reach) == 0 || fake::opened_in(pointer(at), reach) != 0)
        continue;
      ++empty;
      if (!fake::has_dropped_table(pointer(at))) ++left;
    }
  }
  size_t empty = 0;
  size_t left = 0;
};

// With pages of 64 KiB a table maps 512 MiB.
bool has_tables_in_small_heap() {
  if (os::page_table_reach() <= 32 * kMiB) return true;
  WARN("skipped: a page table maps more than this test's heap has");
  return false;
}

// Frees all of the blocks in some order, while others are made of their pages. The fake complains
// of a table that goes too early.
template <typename Free>
void check_tables_go(TestHeap* tested, const std::map<uint32_t, void*>& live, size_t size,
                     Free free) {
  constexpr size_t kAtOnce = 128;
  std::vector<void*> blocks;
  for (const auto& [id, block] : live) blocks.push_back(block);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
  while (blocks.size() >= kAtOnce) {
    for (size_t i = 0; i < kAtOnce; ++i) {
      REQUIRE(free(blocks.back(), size));
      blocks.pop_back();
    }
    (*tested)->blocks().freed().drain(true);
    REQUIRE(tested->malloc(kAtOnce * size) != nullptr);
    CHECK(PageTables(**tested).left == 0);
  }
}

void check_tables_went(TestHeap& tested) {
  const PageTables tables(*tested);
  CHECK(tables.empty > 1);
  CHECK(tables.left == 0);
  CHECK(tested.unsound() == "");
}

TEST_CASE("a page table goes with the last of its pages that is moved, and not before") {
  if (!has_tables_in_small_heap()) return;
  Holes f({"GATHER=always"}, false, 2048);
  REQUIRE(f.tested.malloc(f.free_bytes()) != nullptr);
  check_tables_go(&f.tested, f.live, kPiece,
                  [&](void* block, size_t) { return f.tested.free(block); });
  check_tables_went(f.tested);
}

TEST_CASE("a page table goes with the last of its pages that is given up, and not before") {
  if (!has_tables_in_small_heap()) return;
  Crumbs f(nullptr, 8 * os::page_table_reach());
  REQUIRE(f.tested.malloc(2 * os::page_table_reach()) != nullptr);
  check_tables_go(&f.tested, f.live, kPage,
                  [&](void* page, size_t size) { return f.tested.give(page, size); });
  // A table of larger pages tells of more of them: all that is left must go, too.
  while (kPage > 4 * kKiB && f.tested.malloc(kMiB) != nullptr) continue;
  check_tables_went(f.tested);
}

TEST_CASE("pages that a device may have still are not given up for new ones") {
  Witness witness;
  witness.keeps = true;
  Crumbs f(&witness);
  CHECK(f.tested.malloc(kMiB) == nullptr);
  CHECK(heap_counters(*f.tested).retired == 0);
  witness.keeps = false;
  CHECK(f.tested.malloc(kMiB) != nullptr);
  CHECK(f.is_intact());
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("pages that the kernel does not take back stay where they are") {
  for (size_t k = 1; k < kMiB / kPage; k *= 2) {
    Crumbs f;
    fake::fail_from(Call::kGiveUp, k, Status::kNoMemory);
    CHECK(f.tested.malloc(kMiB) == nullptr);
    CHECK(f.is_intact());
    CHECK(f.tested.unsound() == "");
    fake::fail_nothing();
    CHECK(f.tested.malloc(kMiB) != nullptr);
    CHECK(f.tested.unsound() == "");
  }
}

TEST_CASE("a kernel that has no mappings left refuses moves, and the heap goes on") {
  Holes f;
  fake::machine().most_mappings = fake::mappings() + 20;
  fake::machine().limits_mappings = true;
  for (int i = 0; i < 20; ++i) REQUIRE(f.tested.malloc(f.free_bytes() / 4) != nullptr);
  CHECK(f.is_intact());
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a refused move loses nothing, whichever it is") {
  for (const Status status : {Status::kNoMemory, Status::kRefused}) {
    for (const bool take : {false, true}) {
      for (const bool for_ever : {false, true}) {
        for (size_t k = 1; k < 200; k = k < 6 ? k + 1 : k * 3 / 2) {
          INFO("move " << k << (for_ever ? " and all later ones" : "") << ", status "
                       << static_cast<int>(status));
          Holes f;
          fake::machine().refusals_take = take;
          for_ever ? fake::fail_from(Call::kMove, k, status) : fake::fail(Call::kMove, k, status);
          const size_t wanted = f.free_bytes() / 8 * 9;
          const void* got = f.tested.malloc(wanted);
          CHECK(got != nullptr);
          CHECK(f.is_intact());
          CHECK(f.tested.unsound() == "");
          fake::fail_nothing();
          CHECK(f.tested.malloc(wanted) != nullptr);
          CHECK(f.is_intact());
          CHECK(f.tested.unsound() == "");
        }
      }
    }
  }
}

TEST_CASE("any other call that fails while pages are gathered loses nothing either") {
  for (size_t call = 0; call < fake::kCalls; ++call) {
    for (size_t k = 1; k < 20; ++k) {
      const auto which = static_cast<Call>(call);
      INFO(fake::name(which) << " fails at call " << k);
      Holes f({"GATHER=always", "STRICT=on"});
      fake::fail(which, k, Status::kOutOfBudget);
      const size_t before = fake::calls(which);
      (void)f.tested.malloc(f.free_bytes() * 2);
      (void)f.tested.take(f.free_bytes() / 2);
      const bool reached = fake::calls(which) >= before + k;
      fake::fail_nothing();
      REQUIRE(f.is_intact());
      REQUIRE(f.tested.unsound() == "");
      REQUIRE(f.tested.malloc(f.free_bytes()) != nullptr);
      REQUIRE(f.tested.unsound() == "");
      if (!reached) break;
    }
  }
}

TEST_CASE("a region that lost all its pages is gone, and observers hear of it once") {
  TestHeap tested({"GATHER=always"});
  tested.boot();
  Witness witness;
  REQUIRE(ok(tested->publisher().attach(&witness)));
  void* first = tested.malloc(kMiB);
  const uintptr_t base = tested.region_of(first).base;
  const size_t length = tested.region_of(first).length;
  REQUIRE(tested.free(first));
  const void* got = tested.malloc(2 * length);
  REQUIRE(got != nullptr);
  CHECK(heap_counters(*tested).gathered == length);
  CHECK(witness.retired == std::vector<uintptr_t>{base});
  CHECK(tested->regions().find(reinterpret_cast<void*>(base)) == nullptr);
  CHECK(tested->regions().find(reinterpret_cast<void*>(base + length - 1)) == nullptr);
  CHECK(tested.is_retired(reinterpret_cast<void*>(base), length));
  CHECK(fake::left_in(reinterpret_cast<void*>(base), length) == length);
  CHECK(heap_counters(*tested).regions == 1);
  CHECK(tested.unsound() == "");
  Witness late;
  REQUIRE(ok(tested->publisher().attach(&late)));
  CHECK(late.acquired.count(base) == 0);
  CHECK(late.acquired.size() == heap_counters(*tested).regions);
}

TEST_CASE("an empty region's slot is used again when every observer has let go of it, not before") {
  TestHeap tested({"GATHER=always"});
  tested.boot();
  Witness witness;
  witness.keeps = true;
  REQUIRE(ok(tested->publisher().attach(&witness)));
  void* block = tested.malloc(kMiB);
  const size_t slot = tested.region_of(block).index;
  const size_t length = tested.region_of(block).length;
  REQUIRE(tested.free(block));
  block = tested.malloc(2 * length);
  REQUIRE(block != nullptr);
  REQUIRE(witness.retired.size() == 1);
  REQUIRE(tested.malloc(64 * kMiB) != nullptr);
  CHECK(tested->regions()[slot].is_empty());
  const size_t slots = tested->regions().size();
  witness.keeps = false;
  const void* next = tested.malloc(64 * kMiB);
  REQUIRE(next != nullptr);
  CHECK(tested.region_of(next).index == slot);
  CHECK(tested->regions().size() == slots);
  CHECK_FALSE(tested->regions()[slot].is_empty());
  CHECK(tested.unsound() == "");
}

TEST_CASE("a child of fork gathers its own pages, and its parent's stay where they are") {
  Holes f;
  const test::ChildEnd end = f.tested.run_child([&f] {
    const size_t wanted = f.free_bytes() / 2;
    const void* got = f.tested->blocks().allocate(wanted, 1, false);
    return got != nullptr && heap_counters(*f.tested).gathered == wanted && f.is_intact() &&
           !f.tested->regions().find(got)->locked && validate(*f.tested);
  });
  CHECK(end.exited_well());
  CHECK(f.is_intact());
  for (size_t i = 0; i < f.freed.size(); ++i) {
    CHECK(reads(f.freed[i], kPiece, static_cast<uint32_t>(2 * i + 2)));
  }
  CHECK(heap_counters(*f.tested).gathered == 0);
  CHECK(f.tested.unsound() == "");
}

}  // namespace rdmalloc
