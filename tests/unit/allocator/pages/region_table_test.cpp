#include "allocator/pages/region_table.h"

#include <atomic>
#include <cstdio>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fake_os.h"

namespace rdmalloc {
namespace {

const size_t kPage = os::page_size();
constexpr size_t kGranule = Window::kGranule;

struct Fixture {
  Fixture() { fake::reset(); }
  ~Fixture() { fake::reset(); }

  Region* acquire(size_t bytes) {
    void* base = window.carve(bytes);
    if (base == nullptr) return nullptr;
    Region region;
    region.base = reinterpret_cast<uintptr_t>(base);
    region.length = bytes;
    return table.cover(region) ? table.add(region, RegionTable::kNoSlot) : nullptr;
  }
  const Region* find(uintptr_t address) { return table.find(reinterpret_cast<void*>(address)); }

  Window window;
  RegionTable table{window};
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a table without a window finds nothing") {
  int local = 0;
  CHECK(table.find(&local) == nullptr);
  CHECK(table.find(nullptr) == nullptr);
  CHECK(window.carve(kPage) == nullptr);
}

TEST_CASE_METHOD(Fixture, "a region is found at each of its borders and nowhere else") {
  REQUIRE(ok(window.reserve(64 * kGranule)));
  REQUIRE(ok(table.boot()));
  const size_t sizes[] = {kPage, kGranule - kPage, kGranule, kGranule + kPage, 3 * kGranule};
  const Region* regions[5];
  for (size_t i = 0; i < 5; ++i) {
    regions[i] = acquire(sizes[i]);
    REQUIRE(regions[i] != nullptr);
    CHECK(regions[i]->index == i);
  }
  for (const Region* region : regions) {
    CHECK(region->base % kGranule == 0);
    CHECK(find(region->base) == region);
    CHECK(find(region->base + region->length / 2) == region);
    CHECK(find(region->end() - 1) == region);
    CHECK(find(region->end()) == nullptr);
    CHECK(find(region->base - 1) == nullptr);
  }
  CHECK(table.size() == 5);
  CHECK(find(window.base() + window.size() - 1) == nullptr);
  CHECK(find(window.base() + window.size()) == nullptr);
}

TEST_CASE_METHOD(Fixture, "between two regions lies at least one page that belongs to neither") {
  REQUIRE(ok(window.reserve(64 * kGranule)));
  REQUIRE(ok(table.boot()));
  const Region* first = acquire(2 * kGranule);
  const Region* second = acquire(kPage);
  REQUIRE(second != nullptr);
  CHECK(second->base >= first->end() + kPage);
}

TEST_CASE_METHOD(Fixture, "an exhausted window refuses and keeps what it carved") {
  REQUIRE(ok(window.reserve(4 * kGranule)));
  REQUIRE(ok(table.boot()));
  CHECK(window.carve(4 * kGranule) == nullptr);  // the gap is too small
  const Region* region = acquire(3 * kGranule);
  REQUIRE(region != nullptr);
  CHECK(acquire(kGranule) == nullptr);
  CHECK(window.carve(SIZE_MAX) == nullptr);
  CHECK(window.carve(SIZE_MAX - kPage) == nullptr);
  CHECK(find(region->end() - 1) == region);
}

TEST_CASE_METHOD(Fixture, "the last page of the window is never carved") {
  REQUIRE(ok(window.reserve(4 * kGranule)));
  CHECK(window.carve(4 * kGranule - kPage) != nullptr);
  CHECK(window.carved() == window.size());
  CHECK(window.carve(kPage) == nullptr);
}

TEST_CASE_METHOD(Fixture, "what is carved from the two ends never meets") {
  REQUIRE(ok(window.reserve(16 * kGranule)));
  REQUIRE(ok(table.boot()));
  const auto low_end = reinterpret_cast<uintptr_t>(window.carve(kGranule)) + kGranule;
  auto* first = static_cast<char*>(window.carve(kGranule, 4 * kGranule, Window::End::kHigh));
  auto* second = static_cast<char*>(window.carve(kPage, kGranule, Window::End::kHigh));
  REQUIRE(second != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(first) % (4 * kGranule) == 0);
  CHECK(second + kPage < first);
  CHECK(reinterpret_cast<uintptr_t>(first) + kGranule + kPage <= window.base() + window.size());
  size_t more = 0;
  for (char* last = second; void* got = window.carve(kGranule, kGranule, Window::End::kHigh);) {
    CHECK(static_cast<char*>(got) + kGranule + kPage <= last);
    CHECK(reinterpret_cast<uintptr_t>(got) >= low_end + kPage);
    last = static_cast<char*>(got);
    ++more;
  }
  CHECK(more > 0);
  CHECK(window.left() < kGranule + kPage);
  CHECK(window.carve(kGranule) == nullptr);
}

TEST_CASE_METHOD(Fixture,
                 "an alignment that would use the window up is refused, and uses up nothing") {
  REQUIRE(ok(window.reserve(size_t{1} << 40)));
  if (window.size() < size_t{1} << 40) {
    puts("SKIPPED: this process may not have 1 TiB of addresses (ulimit -v)");
    return;
  }
  for (const Window::End end : {Window::End::kLow, Window::End::kHigh}) {
    const size_t left = window.left();
    CHECK(window.carve(kPage, size_t{1} << 37, end) == nullptr);
    CHECK(window.left() == left);
    void* const address = window.carve(kPage, size_t{1} << 36, end);
    REQUIRE(address != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(address) % (size_t{1} << 36) == 0);
  }
}

TEST_CASE_METHOD(Fixture, "addresses given back at an end are carved there again") {
  REQUIRE(ok(window.reserve(16 * kGranule)));
  for (const Window::End end : {Window::End::kLow, Window::End::kHigh}) {
    REQUIRE(window.carve(kPage, kGranule, end) != nullptr);
    void* address = window.carve(3 * kPage, kGranule, end);
    const size_t left = window.left();
    window.give_back(address, 3 * kPage);
    CHECK(window.left() == left + kGranule);
    CHECK(window.carve(3 * kPage, kGranule, end) == address);
    CHECK(window.left() == left);
  }
}

TEST_CASE_METHOD(Fixture, "the window is halved until the kernel grants it") {
  fake::machine().largest_reservation = 5 * Window::kSmallest;
  REQUIRE(ok(window.reserve(64 * Window::kSmallest)));
  CHECK(window.size() == 4 * Window::kSmallest);
  CHECK(fake::calls(fake::Call::kReserve) == 5);
}

TEST_CASE_METHOD(Fixture, "the window leaves a quarter of RLIMIT_AS to the process") {
  fake::machine().address_space_left = 400 * kGranule;
  REQUIRE(ok(window.reserve(size_t{1} << 40)));
  CHECK(window.size() == 300 * kGranule);
}

TEST_CASE_METHOD(Fixture, "the window leaves half of a small RLIMIT_AS to the process") {
  fake::machine().address_space_left = 100 * kGranule;
  REQUIRE(ok(window.reserve(size_t{1} << 40)));
  CHECK(window.size() == 50 * kGranule);
}

TEST_CASE_METHOD(Fixture, "no window smaller than the smallest is reserved") {
  fake::machine().largest_reservation = Window::kSmallest - 1;
  CHECK(window.reserve(64 * Window::kSmallest) == Status::kNoMemory);
  CHECK(window.size() == 0);
  CHECK_FALSE(window.contains(this));
}

TEST_CASE_METHOD(Fixture, "no address space left means no window") {
  fake::machine().address_space_left = Window::kSmallest;
  CHECK(window.reserve(Window::kSmallest) == Status::kNoMemory);
}

TEST_CASE_METHOD(Fixture, "a window is given up if there is no memory for its table") {
  REQUIRE(ok(window.reserve(4 * kGranule)));
  fake::fail(fake::Call::kMapMetadata, GENERATE(1, 2, 3));
  CHECK(table.boot() == Status::kNoMemory);
  const uintptr_t inside = window.base();
  window.abandon();
  CHECK(find(inside) == nullptr);
  CHECK(window.carve(kPage) == nullptr);
}

// Two facts tell a region's place, so that a mix of two regions shows.
TEST_CASE_METHOD(Fixture,
                 "a region that is copied while its slot is reused is one region, or none") {
  REQUIRE(ok(window.reserve(size_t{1} << 36)));
  REQUIRE(ok(table.boot()));
  const size_t regions = window.granules() - 1;
  std::atomic<uintptr_t> newest{0};
  std::atomic<bool> done{false};
  std::atomic<size_t> copied{0};
  size_t mixed = 0;
  const auto take_in = [&](bool was_copied, const Region& region) {
    if (!was_copied) return;
    ++copied;
    if (region.fresh_to != ~region.base) ++mixed;
  };
  std::thread reader([&] {
    while (!done) {
      Region region;
      take_in(table.copy_nth(0, &region), region);
      const auto* const address = reinterpret_cast<const void*>(newest.load());
      take_in(table.copy(address, &region), region);
      // Whoever looks at an empty region may read which slot it has.
      if (table.size() != 0 && table[0].index != 0) ++mixed;
    }
  });
  size_t slot = RegionTable::kNoSlot;
  for (size_t i = 0; i < regions; ++i) {
    Region region;
    region.base = window.base() + i * kGranule;
    region.length = kPage;
    region.fresh_to = ~region.base;
    REQUIRE(table.cover(region));
    Region* const added = table.add(region, slot);
    slot = added->index;
    newest = added->base;
    if (i + 1 == regions) break;
    added->set_retired(added->length);
    table.remove(*added);
  }
  while (copied == 0 && newest != 0) std::this_thread::yield();
  done = true;
  reader.join();
  CHECK(copied > 0);
  CHECK(mixed == 0);
}

}  // namespace rdmalloc
