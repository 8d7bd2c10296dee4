#include "allocator/pages/free_pages.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_os.h"
#include "tests/support/rounds.h"

namespace rdmalloc {
namespace {

const size_t kPage = os::page_size();
constexpr uintptr_t kBase = uintptr_t{1} << 40;

// Addresses are never touched, so any will do.
void* at(size_t page) { return reinterpret_cast<void*>(kBase + page * kPage); }

size_t page_of(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) - kBase) / kPage;
}

struct Fixture {
  Fixture() { fake::reset(); }
  ~Fixture() { fake::reset(); }
  FreePages pool;
};

// The same promises kept the slow way: one flag per page.
class Model {
 public:
  explicit Model(size_t pages) : free_(pages, false) {}

  void give(size_t page, size_t count) { std::fill_n(free_.begin() + page, count, true); }
  bool take_at(size_t page, size_t count) {
    if (!is_free(page, count)) return false;
    std::fill_n(free_.begin() + page, count, false);
    return true;
  }
  // The first fit among long enough runs, of which only some are tried if the alignment exceeds a
  // page; then the first that fits at any start. free_.size() if none.
  size_t take(size_t count, size_t alignment) {
    const auto fits = [&](size_t from, size_t pages) {
      const size_t page = (from + alignment - 1) / alignment * alignment;
      return page + count <= from + pages ? page : free_.size();
    };
    size_t tries = alignment == 1 ? SIZE_MAX : 8;
    std::vector<std::pair<size_t, size_t>> all = all_runs();
    if (is_highest_first) std::reverse(all.begin(), all.end());
    size_t found = free_.size();
    bool is_left = false;
    for (const auto& [from, pages] : all) {
      if (found != free_.size() || pages < count) continue;
      is_left = tries == 0;
      if (is_left) break;
      --tries;
      found = fits(from, pages);
    }
    for (const auto& [from, pages] : all) {
      if (found != free_.size() || !is_left) break;
      if (pages >= count + alignment - 1) found = fits(from, pages);
    }
    if (found != free_.size()) std::fill_n(free_.begin() + found, count, false);
    return found;
  }
  size_t free_pages() const { return std::count(free_.begin(), free_.end(), true); }
  size_t largest() const {
    size_t best = 0;
    size_t run = 0;
    for (const bool free : free_) {
      run = free ? run + 1 : 0;
      best = std::max(best, run);
    }
    return best;
  }
  size_t runs() const {
    size_t count = 0;
    for (size_t i = 0; i < free_.size(); ++i) count += free_[i] && (i == 0 || !free_[i - 1]);
    return count;
  }

  bool is_highest_first = false;

 private:
  std::vector<std::pair<size_t, size_t>> all_runs() const {
    std::vector<std::pair<size_t, size_t>> all;
    for (size_t i = 0; i < free_.size(); ++i) {
      if (!free_[i]) continue;
      if (i == 0 || !free_[i - 1]) all.emplace_back(i, 0);
      ++all.back().second;
    }
    return all;
  }
  bool is_free(size_t page, size_t count) const {
    if (page + count > free_.size()) return false;
    for (size_t i = page; i < page + count; ++i) {
      if (!free_[i]) return false;
    }
    return true;
  }
  std::vector<bool> free_;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "an empty pool has nothing to take") {
  CHECK(pool.take(kPage, kPage) == nullptr);
  CHECK_FALSE(pool.take_at(at(0), kPage));
  CHECK(pool.largest() == 0);
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "the lowest address that fits is taken first") {
  REQUIRE(ok(pool.give(at(10), 2 * kPage)));
  REQUIRE(ok(pool.give(at(20), 8 * kPage)));
  REQUIRE(ok(pool.give(at(0), kPage)));
  CHECK(pool.take(2 * kPage, kPage) == at(10));
  CHECK(pool.take(2 * kPage, kPage) == at(20));
  CHECK(pool.take(kPage, kPage) == at(0));
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "a freed extent joins both neighbours") {
  REQUIRE(ok(pool.give(at(0), kPage)));
  REQUIRE(ok(pool.give(at(2), kPage)));
  CHECK(pool.runs() == 2);
  REQUIRE(ok(pool.give(at(1), kPage)));
  CHECK(pool.runs() == 1);
  CHECK(pool.largest() == 3 * kPage);
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "extents never join across a gap of one page") {
  REQUIRE(ok(pool.give(at(0), 4 * kPage)));
  REQUIRE(ok(pool.give(at(5), 4 * kPage)));
  CHECK(pool.runs() == 2);
  CHECK(pool.take(8 * kPage, kPage) == nullptr);
  CHECK(pool.free_bytes() == 8 * kPage);
}

TEST_CASE_METHOD(Fixture, "a region prepared for cannot fail to be added") {
  REQUIRE(pool.prepare());
  fake::fail_from(fake::Call::kMapMetadata, 1);
  pool.add(at(4), 4 * kPage);
  CHECK(pool.take(4 * kPage, kPage) == at(4));
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "every alignment up to a gigabyte is kept") {
  constexpr size_t kGiB = size_t{1} << 30;
  // Starts one page above a boundary, so that no alignment comes for free.
  REQUIRE(ok(pool.give(at(1), 8 * kGiB)));
  for (size_t alignment = kPage; alignment <= kGiB; alignment *= 2) {
    const void* got = pool.take(3 * kPage, alignment);
    REQUIRE(got != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(got) % alignment == 0);
    CHECK(pool.validate());
  }
}

TEST_CASE_METHOD(Fixture, "an extent large enough but too badly aligned is passed over") {
  REQUIRE(ok(pool.give(at(1), 4 * kPage)));
  REQUIRE(ok(pool.give(at(9), 12 * kPage)));
  CHECK(pool.take(4 * kPage, 8 * kPage) == at(16));
  CHECK(pool.free_bytes() == 12 * kPage);
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "the highest address that fits is taken first, where that is the order") {
  pool.set_order(RunTree::Order::kHighestFirst);
  REQUIRE(ok(pool.give(at(10), 2 * kPage)));
  REQUIRE(ok(pool.give(at(20), 8 * kPage)));
  REQUIRE(ok(pool.give(at(30), kPage)));
  CHECK(pool.take(2 * kPage, kPage) == at(20));
  CHECK(pool.take(kPage, kPage) == at(30));
  CHECK(pool.take(6 * kPage, kPage) == at(22));
  CHECK(pool.take(2 * kPage, kPage) == at(10));
  CHECK(pool.validate());
}

// Walking all of them for each request would take minutes.
TEST_CASE_METHOD(Fixture, "the search for an aligned run is bounded, however many are misaligned") {
  constexpr size_t kHoles = 40'000;
  constexpr size_t kAlignment = 64;
  for (size_t i = 0; i < kHoles; ++i) {
    REQUIRE(ok(pool.give(at(2 * kAlignment * i + 1), kAlignment * kPage)));
  }
  const size_t free = pool.free_bytes();
  for (size_t i = 0; i < test::rounds(200'000); ++i) {
    if (pool.has(kAlignment * kPage, kAlignment * kPage)) FAIL("there is none");
    if (pool.take(kAlignment * kPage, kAlignment * kPage) != nullptr) FAIL("there is none");
  }
  CHECK(pool.free_bytes() == free);
  // A run that fits at any start is found behind all of these.
  REQUIRE(ok(pool.give(at(2 * kAlignment * kHoles + 1), 2 * kAlignment * kPage)));
  CHECK(pool.take(kAlignment * kPage, kAlignment * kPage) ==
        at(2 * kAlignment * kHoles + kAlignment));
  // A request without alignment gets the first of them.
  CHECK(pool.take(kAlignment * kPage, kPage) == at(1));
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "the largest run is taken, or as much of it as is wanted") {
  REQUIRE(ok(pool.give(at(0), 3 * kPage)));
  REQUIRE(ok(pool.give(at(10), 7 * kPage)));
  REQUIRE(ok(pool.give(at(20), 5 * kPage)));
  size_t size = 0;
  CHECK(pool.take_largest(8 * kPage, SIZE_MAX, &size) == nullptr);
  CHECK(pool.take_largest(kPage, SIZE_MAX, &size) == at(10));
  CHECK(size == 7 * kPage);
  CHECK(pool.take_largest(kPage, 2 * kPage, &size) == at(20));
  CHECK(size == 2 * kPage);
  CHECK(pool.free_bytes() == 6 * kPage);
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "has() is true of what take() would give") {
  REQUIRE(ok(pool.give(at(1), 4 * kPage)));
  CHECK(pool.has(4 * kPage, kPage));
  CHECK_FALSE(pool.has(5 * kPage, kPage));
  CHECK_FALSE(pool.has(2 * kPage, 4 * kPage));
  CHECK(pool.free_bytes() == 4 * kPage);
  CHECK(pool.take(4 * kPage, kPage) == at(1));
}

TEST_CASE_METHOD(Fixture, "an exact range is taken only when all of it is free") {
  REQUIRE(ok(pool.give(at(4), 4 * kPage)));
  CHECK_FALSE(pool.take_at(at(3), 2 * kPage));
  CHECK_FALSE(pool.take_at(at(7), 2 * kPage));
  CHECK_FALSE(pool.take_at(at(8), kPage));
  CHECK(pool.take_at(at(5), 2 * kPage));
  CHECK_FALSE(pool.take_at(at(5), kPage));
  CHECK(pool.take_at(at(4), kPage));
  CHECK(pool.take_at(at(7), kPage));
  CHECK(pool.free_bytes() == 0);
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "without memory for records nothing changes and nothing is lost") {
  fake::fail_from(fake::Call::kMapMetadata, 2);  // a single chunk of records
  size_t pages = 0;
  while (ok(pool.give(at(2 * pages), kPage))) ++pages;
  REQUIRE(pages > 100);
  CHECK(pool.runs() == pages);
  CHECK(pool.free_bytes() == pages * kPage);
  CHECK(pool.validate());

  // Joining needs no record: with all holes filled there is one extent, with records to spare.
  for (size_t i = 0; i + 1 < pages; ++i) REQUIRE(ok(pool.give(at(2 * i + 1), kPage)));
  CHECK(pool.runs() == 1);
  for (size_t i = 1; i < pages; ++i) REQUIRE(pool.take_at(at(2 * i - 1), kPage));
  REQUIRE(pool.runs() == pages);

  // A split needs one.
  REQUIRE(ok(pool.give(at(1), kPage)));          // pages 0..2 are one extent; one record is spare
  REQUIRE(ok(pool.give(at(3 * pages), kPage)));  // which is used up here
  const size_t before = pool.free_bytes();
  CHECK_FALSE(pool.take_at(at(1), kPage));
  CHECK(pool.free_bytes() == before);
  CHECK(pool.validate());
  CHECK(pool.take_at(at(0), kPage));
  CHECK(pool.validate());
}

TEST_CASE_METHOD(Fixture, "the pool does what a naive one does") {
  constexpr size_t kPages = 600;
  constexpr size_t kGap = 300;  // never free: it separates two regions
  std::mt19937 random(7);
  const auto below = [&random](size_t bound) { return random() % bound; };
  Model model(kPages);
  model.is_highest_first = GENERATE(false, true);
  if (model.is_highest_first) pool.set_order(RunTree::Order::kHighestFirst);
  std::map<size_t, size_t> taken;
  const auto add_region = [&](size_t first, size_t count) {
    REQUIRE(ok(pool.give(at(first), count * kPage)));
    model.give(first, count);
  };
  add_region(0, kGap);
  add_region(kGap + 1, kPages - kGap - 1);

  for (size_t step = 0; step < test::rounds(20000); ++step) {
    const size_t kind = below(10);
    if (kind < 5) {
      const size_t count = 1 + below(below(8) == 0 ? 80 : 8);
      const size_t alignment = size_t{1} << below(6);
      const size_t expected = model.take(count, alignment);
      const void* got = pool.take(count * kPage, alignment * kPage);
      REQUIRE((got == nullptr ? kPages : page_of(got)) == expected);
      if (got != nullptr) taken[expected] = count;
    } else if (kind < 6) {
      const size_t page = below(kPages);
      const size_t count = 1 + below(4);
      const bool expected = model.take_at(page, count);
      REQUIRE(pool.take_at(at(page), count * kPage) == expected);
      if (expected) taken[page] = count;
    } else if (!taken.empty()) {
      auto chosen = taken.lower_bound(below(kPages));
      if (chosen == taken.end()) chosen = taken.begin();
      const auto [page, count] = *chosen;
      taken.erase(chosen);
      const size_t given = 1 + below(count);  // jemalloc may return a part first
      REQUIRE(ok(pool.give(at(page), given * kPage)));
      model.give(page, given);
      if (given < count) taken[page + given] = count - given;
    }
    REQUIRE(pool.validate());
    REQUIRE(pool.free_bytes() == model.free_pages() * kPage);
    REQUIRE(pool.largest() == model.largest() * kPage);
    REQUIRE(pool.runs() == model.runs());
  }
}

TEST_CASE_METHOD(Fixture, "the walk sees every extent once, in address order") {
  for (const size_t page : {9, 1, 5, 3, 7}) REQUIRE(ok(pool.give(at(page), kPage)));
  std::vector<size_t> seen;
  pool.for_each([&seen](void* address, size_t) { seen.push_back(page_of(address)); });
  CHECK(seen == std::vector<size_t>{1, 3, 5, 7, 9});
}

TEST_CASE_METHOD(Fixture, "a pool that was cleared holds nothing, and takes anew") {
  for (size_t page = 0; page < 100; page += 2) REQUIRE(ok(pool.give(at(page), kPage)));
  pool.clear();
  CHECK(pool.free_bytes() == 0);
  CHECK(pool.runs() == 0);
  CHECK(pool.largest() == 0);
  CHECK(pool.take(kPage, kPage) == nullptr);
  const size_t metadata = pool.metadata_bytes();
  for (size_t page = 1; page < 100; page += 2) REQUIRE(ok(pool.give(at(page), kPage)));
  CHECK(pool.metadata_bytes() == metadata);
  CHECK(pool.take(kPage, kPage) == at(1));
  CHECK(pool.validate());
}

}  // namespace rdmalloc
