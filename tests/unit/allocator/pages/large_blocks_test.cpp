// Blocks of whole pages: what free knows of them, growing in place, growing by moving.
#include "allocator/pages/large_blocks.h"

#include <string.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::Call;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

void write(void* address, size_t size) {
  for (size_t at = 0; at < size; at += kPage) {
    memcpy(static_cast<char*>(address) + at, &at, sizeof at);
  }
}

bool reads(const void* address, size_t size) {
  for (size_t at = 0; at < size; at += kPage) {
    if (memcmp(static_cast<const char*>(address) + at, &at, sizeof at) != 0) return false;
  }
  return true;
}

// A block of 4 MiB that cannot grow in place. `pieces`: gathered from holes, so that its pages
// belong to many kernel mappings.
struct Grown {
  static constexpr size_t kSize = 4 * kMiB;

  explicit Grown(bool pieces, std::initializer_list<const char*> options = {"GATHER=always"},
                 bool exposed = false)
      : tested(options), is_exposed(exposed) {
    tested.boot();
    std::vector<void*> all;
    do {
      all.push_back(take(64 * kKiB));
    } while (all.size() < tested.last_region().length / (64 * kKiB));
    if (pieces) {
      size_t freed = 0;
      for (size_t i = 0; i < all.size() && freed < kSize; i += 2, freed += 64 * kKiB) {
        REQUIRE(tested.free(all[i]));
      }
      tested->blocks().freed().drain(true);
    }
    block = take(kSize);
    write(block, kSize);
    if (pieces && !exposed) REQUIRE(heap_counters(*tested).gathered != 0);
    // Nothing is free behind it.
    while (tested->blocks().resize(block, tested->blocks().size_of(block) + kPage)) {
    }
    old_size = tested->blocks().size_of(block);
    fake::drop(block);
    fake::hold(block, old_size);
  }
  void* take(size_t size) {
    void* got = is_exposed ? tested.malloc_exposed(size) : tested.malloc(size);
    REQUIRE(got != nullptr);
    return got;
  }

  TestHeap tested;
  bool is_exposed;
  void* block = nullptr;
  size_t old_size = 0;
};

}  // namespace

TEST_CASE("a block is freed once, by its start") {
  TestHeap tested;
  tested.boot();
  auto* block = static_cast<char*>(tested.malloc(100 * kKiB));
  auto* next = static_cast<char*>(tested.malloc(100 * kKiB));
  LargeBlocks& blocks = tested->blocks();
  CHECK(blocks.size_of(block) == os::page_ceil(100 * kKiB));
  int local = 0;
  for (void* wrong :
       {static_cast<void*>(block + kPage), static_cast<void*>(block + 8),
        static_cast<void*>(next + os::page_ceil(100 * kKiB)), static_cast<void*>(&local),
        static_cast<void*>(nullptr), tested.take(kPage)}) {
    CHECK(blocks.size_of(wrong) == 0);
    CHECK_FALSE(blocks.release(wrong));
    CHECK_FALSE(blocks.resize(wrong, 200 * kKiB));
  }
  REQUIRE(tested.free(block));
  CHECK(blocks.size_of(block) == 0);  // it is in a processor's cache
  CHECK_FALSE(blocks.release(block));
  CHECK_FALSE(blocks.resize(block, 100 * kKiB));
  blocks.freed().drain(true);
  CHECK(blocks.size_of(block) == 0);
  CHECK_FALSE(blocks.release(block));
  CHECK(blocks.size_of(next) == os::page_ceil(100 * kKiB));
  CHECK(tested.unsound() == "");
}

TEST_CASE("a block that is used again has the size that was asked for") {
  TestHeap tested;
  tested.boot();
  void* block = tested.malloc(100 * kPage);
  REQUIRE(tested.free(block));
  // As close as the cache may accept.
  const size_t pages = GENERATE(100, 95, 90);
  REQUIRE(tested.malloc(pages * kPage) == block);
  CHECK(tested->blocks().size_of(block) == pages * kPage);
  CHECK(tested.resize(block, 100 * kPage));
  CHECK(tested->blocks().size_of(block) == 100 * kPage);
  REQUIRE(tested.free(block));
  CHECK(tested.unsound() == "");
}

TEST_CASE("blocks of fewer pages than processors keep are taken and freed as others are") {
  TestHeap tested({"GATHER=always"});
  tested.boot();
  LargeBlocks& blocks = tested->blocks();
  for (size_t pages = 1; pages <= 20; ++pages) {
    for (int round = 0; round < 3; ++round) {
      void* const block = blocks.allocate(pages * kPage, 1, false);
      REQUIRE(block != nullptr);
      write(block, pages * kPage);
      CHECK(blocks.size_of(block) == pages * kPage);
      CHECK(tested.free(block));
    }
  }
  CHECK(tested.unsound() == "");
}

TEST_CASE("what is zeroed is zero, from the cache, from a depot, and partly new") {
  TestHeap tested;
  tested.boot();
  for (const bool drained : {false, true}) {
    void* block = tested.malloc(256 * kKiB);
    memset(block, 1, 256 * kKiB);
    REQUIRE(tested.free(block));
    if (drained) tested->blocks().freed().drain(true);
    const size_t size = drained ? 512 * kKiB : 250 * kKiB;
    block = tested.malloc(size, 1, true);
    CHECK(fake::reads_zero(block, size));
    REQUIRE(tested.free(block));
  }
}

TEST_CASE("sizes beyond the largest and any alignment up to a gigabyte") {
  TestHeap tested({"WINDOW=64G"});
  tested.boot();
  for (const size_t size : {LargeBlocks::kLargest + 1, size_t{1} << 62, SIZE_MAX}) {
    CHECK(tested.malloc(size) == nullptr);
    CHECK(tested.malloc_exposed(size) == nullptr);
  }
  for (size_t alignment = 16; alignment <= fake::kGiB; alignment *= 8) {
    const void* got = tested.malloc(40 * kKiB, alignment);
    REQUIRE(got != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(got) % alignment == 0);
  }
  CHECK(tested.unsound() == "");
}

TEST_CASE("cached blocks count as cached, and neither as live nor as lost") {
  TestHeap tested;
  tested.boot();
  void* one = tested.malloc(kMiB);
  void* two = tested.malloc(kMiB);
  CHECK(heap_counters(*tested).live_blocks == 2 * kMiB);
  REQUIRE(tested.free(one));
  HeapCounters now = heap_counters(*tested);
  CHECK(now.cached == kMiB);
  CHECK(now.live == kMiB);
  CHECK(now.live_blocks == kMiB);
  CHECK(tested.unsound() == "");
  tested->blocks().freed().drain(true);
  now = heap_counters(*tested);
  CHECK(now.cached == 0);
  CHECK(now.live == kMiB);
  REQUIRE(tested.free(two));
  CHECK(tested.unsound() == "");
}

TEST_CASE("blocks that processors keep are handed out before malloc fails") {
  TestHeap tested({"MEMORY_CAP=64M", "GATHER=off"});
  tested.boot();
  std::vector<void*> all;
  while (void* got = tested.malloc(128 * kKiB)) all.push_back(got);
  for (void* block : all) REQUIRE(tested.free(block));
  CHECK(heap_counters(*tested).cached != 0);
  CHECK(tested.malloc(8 * kMiB) != nullptr);
  CHECK(tested.take(8 * kMiB) == nullptr);  // blocks keep their free pages without gathering
  CHECK(tested.unsound() == "");
}

TEST_CASE(
    "the heap grows where caches have blocks that nobody touched, and empties them otherwise") {
  for (const bool touches : {false, true}) {
    INFO((touches ? "touched" : "untouched"));
    TestHeap tested;
    tested.boot();
    std::vector<void*> all;
    for (int i = 0; i < 96; ++i) {
      all.push_back(tested.malloc(kMiB));
      REQUIRE(all.back() != nullptr);
      if (touches) write(all.back(), kMiB);
    }
    for (int i = 0; i < 24; ++i) REQUIRE(tested.free(all[static_cast<size_t>(i)]));
    const HeapCounters before = heap_counters(*tested);
    CHECK(before.cached == 24 * kMiB);
    const size_t held = tested->budget().charges().held();
    const size_t rest = before.largest_free;
    REQUIRE(rest < 16 * kMiB);
    REQUIRE(tested.malloc(std::max(rest + kPage, 2 * kMiB)) != nullptr);
    const bool grew = tested->budget().charges().held() > held;
    CHECK(grew == !touches);
    // One of them was taken to be looked at.
    CHECK((heap_counters(*tested).cached >= 23 * kMiB) == !touches);
    CHECK(tested.unsound() == "");
  }
}

TEST_CASE("a block that grows by moving has its bytes, and its old addresses are retired") {
  for (const bool pieces : {false, true}) {
    for (const bool exposed : {false, true}) {
      Grown f(pieces, {"GATHER=always"}, exposed);
      const size_t wanted = 2 * f.old_size;
      void* moved = f.tested.move(f.block, wanted);
      REQUIRE(moved != nullptr);
      REQUIRE(moved != f.block);
      CHECK(reads(moved, Grown::kSize));
      CHECK(f.tested->blocks().size_of(moved) == wanted);
      CHECK(f.tested->blocks().size_of(f.block) == 0);
      CHECK_FALSE(f.tested->blocks().release(f.block));
      CHECK(f.tested.is_retired(f.block, f.old_size));
      CHECK(fake::left_in(f.block, f.old_size) == f.old_size);
      CHECK(f.tested.region_of(moved).exposed == exposed);
      CHECK(fake::split_moves() == 0);
      CHECK(f.tested.unsound() == "");
      REQUIRE(f.tested.free(moved));
      CHECK(f.tested.unsound() == "");
    }
  }
}

TEST_CASE(
    "a block that grows by moving again and again has its bytes, and few mappings are moved") {
  TestHeap tested;
  tested.boot();
  void* block = tested.malloc(kMiB);
  write(block, kMiB);
  const void* stop = tested.malloc(kMiB);
  REQUIRE(stop != nullptr);
  for (size_t size = kMiB; size < 256 * kMiB; size += size / 3 / kPage * kPage) {
    const size_t before = tested->blocks().size_of(block);
    if (!tested.resize(block, size)) block = tested.move(block, size);
    if (block == nullptr) break;
    REQUIRE(reads(block, before < size ? before : size));
    write(block, size);
  }
  REQUIRE(block != nullptr);
  CHECK(tested.unsound() == "");
  CHECK(tested->budget().charges().held() < 512 * kMiB);
}

// Blocks of 4 MiB side by side, so that none can grow in place, in a heap that has nothing else.
struct Growing {
  explicit Growing(std::initializer_list<const char*> options = {}) : tested(options) {
    tested.boot();
    for (void*& block : blocks) block = tested.malloc(4 * kMiB);
    Depots& depots = tested->store().depots;
    for (const bool pinned : {true, false}) {
      while (depots.of(RegionUse::kBlocks, 0, pinned).largest() >= 64 * kKiB) {
        REQUIRE(tested.malloc(64 * kKiB) != nullptr);
      }
    }
  }
  void* move(void** block, size_t size) {
    *block = tested.move(*block, size);
    REQUIRE(*block != nullptr);
    return *block;
  }
  size_t spare() { return tested->store().live.spare(); }
  size_t held() { return tested->budget().charges().held(); }

  TestHeap tested;
  void* blocks[4] = {};
};

TEST_CASE("what is spare behind a block that grows by moving waits for it, and for nobody else") {
  Growing f;
  void* const first = f.move(&f.blocks[0], 5 * kMiB);
  const size_t spare = f.spare();
  CHECK(spare >= 2 * kMiB);
  CHECK(f.tested.region_of(first).length == 5 * kMiB + spare);
  // Neither blocks, nor jemalloc, nor other blocks that move.
  for (int i = 0; i < 100; ++i) REQUIRE(f.tested.malloc(kMiB) != nullptr);
  for (int i = 0; i < 100; ++i) REQUIRE(f.tested.take(kMiB) != nullptr);
  for (int i = 1; i < 4; ++i) (void)f.move(&f.blocks[i], 5 * kMiB);
  const size_t all = f.spare();
  CHECK(all > spare);
  CHECK(f.tested.resize(first, 5 * kMiB + spare));
  CHECK(f.spare() == all - spare);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("blocks side by side that grow page by page move seldom") {
  Growing f;
  size_t moves = 0;
  for (size_t size = 4 * kMiB + kPage; size <= 16 * kMiB; size += kPage) {
    for (void*& block : f.blocks) {
      if (f.tested.resize(block, size)) continue;
      (void)f.move(&block, size);
      ++moves;
    }
  }
  CHECK(moves <= 4 * 16);  // by an eighth at least, or a MiB
  CHECK(f.held() - f.tested->store().live.all() <= 4 * 8 * kMiB + kMiB);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("a block that grows by large steps has nothing to spare") {
  Growing f;
  (void)f.move(&f.blocks[0], 6 * kMiB);
  CHECK(f.spare() == 0);
  CHECK(f.tested.unsound() == "");
}

TEST_CASE("what is spare behind a block is not held twice when the block moves on") {
  Growing f;
  size_t size = 5 * kMiB;
  void* block = f.move(&f.blocks[0], size);
  for (int i = 0; i < 5; ++i) {
    const size_t left = 256 * kKiB;
    const size_t before = f.held() - f.spare() - size;
    size += f.spare() - left;
    REQUIRE(f.tested.resize(block, size));
    REQUIRE_FALSE(f.tested.resize(block, size + left + kPage));
    size += left + kPage;
    block = f.move(&block, size);
    REQUIRE(f.spare() >= size / 4);
    CHECK(f.held() - f.spare() - size == before);
  }
  CHECK(f.tested.unsound() == "");
}

// A device that has registered whatever there is.
class Device : public RegionObserver {
 public:
  void on_acquire(const Region&) noexcept override {}
  bool has_let_go(const Region&) const noexcept override { return false; }
  void on_fork_child() noexcept override {}
};

TEST_CASE("what was spare behind a block that is gone goes back, or serves the next request") {
  for (const bool is_registered : {false, true}) {
    Device device;
    Growing f({"GATHER=always"});
    if (is_registered) REQUIRE(ok(f.tested->publisher().attach(&device)));
    void* const block = f.move(&f.blocks[0], 5 * kMiB);
    write(block, 5 * kMiB);
    const size_t spare = f.spare();
    REQUIRE(spare >= kMiB);
    REQUIRE(f.tested.free(block));
    f.tested->blocks().freed().drain(true);
    const size_t held = f.held();
    REQUIRE(f.tested.malloc(5 * kMiB + spare + kMiB) != nullptr);
    CHECK(f.spare() == 0);
    CHECK(f.held() == held + kMiB);
    CHECK((heap_counters(*f.tested).gathered > 10 * kMiB) == is_registered);
    CHECK(f.tested.unsound() == "");
  }
}

TEST_CASE(
    "where no more may be held, or no addresses are left, what is spare serves whoever asks") {
  using Set = std::initializer_list<const char*>;
  for (const Set& options : {Set{"CAP=64M", "STRICT=on"}, Set{"CAP=0", "MEMORY_CAP=64M"},
                             Set{"CAP=8M", "MEMORY_CAP=64M"}, Set{"WINDOW=256M"}}) {
    for (const bool are_blocks : {true, false}) {
      CAPTURE(*options.begin(), are_blocks);
      Growing f(options);
      void* const block = f.move(&f.blocks[3], 5 * kMiB);
      write(block, 5 * kMiB);
      REQUIRE(f.spare() != 0);
      size_t got = 0;
      while ((are_blocks ? f.tested.malloc(kMiB) : f.tested.take(kMiB)) != nullptr) got += kMiB;
      CHECK(got >= 32 * kMiB);
      CHECK((f.spare() == 0 || !are_blocks));
      CHECK(reads(block, 5 * kMiB));
      CHECK(f.tested.unsound() == "");
    }
  }
}

// As realloc does: in place, by moving, or by copying.
void* grow(TestHeap& tested, void* block, size_t size) {
  if (tested.resize(block, size)) return block;
  if (void* const moved = tested.move(block, size)) return moved;
  void* const copy = tested.malloc(size);
  REQUIRE(tested.free(block));
  return copy;
}

TEST_CASE("blocks that grow again and again leave the addresses that growing needs") {
  TestHeap tested({"WINDOW=1G"});
  tested.boot();
  for (int round = 0; round < 200; ++round) {
    void* blocks[4] = {};
    for (void*& block : blocks) block = tested.malloc(kMiB);
    for (size_t size = 2 * kMiB; size <= 16 * kMiB; size *= 2) {
      for (void*& block : blocks) {
        block = grow(tested, block, size + static_cast<size_t>(round % 4) * kPage);
        REQUIRE(block != nullptr);
      }
    }
    for (void* block : blocks) REQUIRE(tested.free(block));
  }
  CHECK(tested.unsound() == "");
}

TEST_CASE("malloc is as sparse as calloc if that is asked for, from the same size on") {
  const bool is_asked = GENERATE(true, false);
  TestHeap tested({"SPARSE_FROM=2M", is_asked ? "SPARSE=malloc" : "SPARSE=calloc"});
  tested.boot();
  void* const large = tested.malloc(2 * kMiB);
  CHECK((tested.region_of(large).kind == RegionKind::kSparse) == is_asked);
  CHECK(tested.region_of(tested.malloc(kMiB)).kind == RegionKind::kPinned);
  const size_t held = tested->budget().charges().held();
  tested.free(large);
  CHECK(tested->budget().charges().held() == held - (is_asked ? 2 * kMiB : 0));
}

TEST_CASE("small blocks, smaller sizes and sparse ones are not moved") {
  TestHeap tested({"SPARSE_FROM=2M"});
  tested.boot();
  void* small = tested.malloc(256 * kKiB - kPage);
  void* large = tested.malloc(2 * kMiB);
  void* sparse = tested.malloc(2 * kMiB, 1, true);
  CHECK(tested.move(small, 4 * kMiB) == nullptr);
  CHECK(tested.move(large, kMiB) == nullptr);
  CHECK(tested.move(large, 2 * kMiB) == nullptr);
  CHECK(tested.move(sparse, 4 * kMiB) == nullptr);
  CHECK(tested.move(large, LargeBlocks::kLargest + 1) == nullptr);
  CHECK(fake::calls(Call::kMove) == 0);
  CHECK(tested.unsound() == "");
}

TEST_CASE("for a block that may not be moved no processor's freed blocks are given up") {
  TestHeap tested({"GATHER=off"});
  tested.boot();
  void* const block = tested.malloc(4 * kMiB);
  const void* const stop = tested.malloc(kMiB);
  REQUIRE(stop != nullptr);
  REQUIRE(tested.free(tested.malloc(kMiB)));
  const size_t cached = heap_counters(*tested).cached;
  REQUIRE(cached != 0);
  CHECK(tested.move(block, 64 * kMiB) == nullptr);
  CHECK(heap_counters(*tested).cached == cached);
}

TEST_CASE("a sealed block is not moved") {
  Grown f(false, {"SEAL=on"});
  CHECK(f.tested.move(f.block, 2 * f.old_size) == nullptr);
  CHECK(fake::calls(Call::kMove) == 0);
  CHECK(reads(f.block, Grown::kSize));
}

TEST_CASE("any call that fails while a block moves leaves it whole, here or there") {
  for (const bool pieces : {false, true}) {
    for (size_t call = 0; call < fake::kCalls; ++call) {
      for (const Status status : {Status::kNoMemory, Status::kRefused}) {
        for (const bool for_ever : {false, true}) {
          for (size_t k = 1; k < 80; ++k) {
            const auto which = static_cast<Call>(call);
            INFO(fake::name(which) << " fails at call " << k << (for_ever ? " and later" : "")
                                   << (pieces ? ", of pieces" : ""));
            Grown f(pieces);
            fake::machine().refusals_take = k % 2 == 0;
            const size_t before = fake::calls(which);
            for_ever ? fake::fail_from(which, k, status) : fake::fail(which, k, status);
            void* moved = f.tested.move(f.block, 2 * f.old_size);
            const bool reached = fake::calls(which) >= before + k;
            fake::fail_nothing();
            void* const now = moved == nullptr ? f.block : moved;
            REQUIRE(reads(now, Grown::kSize));
            REQUIRE(f.tested->blocks().size_of(now) ==
                    (moved == nullptr ? f.old_size : 2 * f.old_size));
            REQUIRE(f.tested.unsound() == "");
            REQUIRE(f.tested.free(now));
            REQUIRE(f.tested.unsound() == "");
            if (!reached) break;
          }
        }
      }
    }
  }
}

TEST_CASE(
    "a child of fork moves its parent's blocks, but gives out nothing exposed that is not pinned") {
  TestHeap tested;
  tested.boot();
  void* block = tested.malloc_exposed(2 * kMiB);
  write(block, 2 * kMiB);
  REQUIRE(tested.malloc_exposed(14 * kMiB) != nullptr);
  before_fork(*tested);
  after_fork_in_child(*tested);
  const void* moved = tested->blocks().move(block, 4 * kMiB);
  if (moved != nullptr) CHECK(reads(moved, 2 * kMiB));
  for (int i = 0; i < 50; ++i) {
    const void* own = tested->blocks().allocate_exposed(64 * kKiB, kPage);
    REQUIRE(own != nullptr);
    REQUIRE(tested.region_of(own).locked);
  }
  CHECK(validate(*tested));
}

}  // namespace rdmalloc
