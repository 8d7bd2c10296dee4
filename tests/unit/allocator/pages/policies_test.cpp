// How much the heap acquires at a time, and when it moves free pages instead: each rule at its
// border.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <initializer_list>
#include <thread>
#include <utility>

#include "allocator/pages/gathering_policy.h"
#include "allocator/pages/growth_policy.h"
#include "allocator/pages/heap.h"
#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {
namespace {

using fake::kGiB;
using fake::kKiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

Request request_of(size_t size, RegionUse use = RegionUse::kBlocks) {
  return {size, kPage, use, 0};
}

// A heap that holds exactly so much, all of it live until the test says otherwise.
struct Held {
  explicit Held(size_t bytes, std::initializer_list<const char*> options = {}) : tested(options) {
    if (bytes != 0) REQUIRE(tested.take(bytes) != nullptr);
    REQUIRE(tested->budget().charges().held() == bytes);
    policy.boot(false);
    Locked hold(store().mutex());
    policy.note_live();
  }
  PageStore& store() { return tested->store(); }
  void leave_idle(size_t bytes) {
    store().live.add(RegionUse::kExtents, tested->budget().charges().held() - store().live.all());
    store().live.remove(RegionUse::kExtents, bytes);
  }

  TestHeap tested;
  GatheringPolicy policy{tested.boot()->store()};
};

}  // namespace

TEST_CASE(
    "a request of jemalloc's gathers a step, a block 16 MiB, and the largest blocks themselves") {
  Held f(64 * kMiB);
  constexpr size_t kStep = 5 * kMiB;
  CHECK(f.policy.amount_to_gather(request_of(kPage, RegionUse::kExtents), kStep) == kStep);
  CHECK(f.policy.amount_to_gather(request_of(64 * kKiB), kStep) == 16 * kMiB);
  CHECK(f.policy.amount_to_gather(request_of(4 * kMiB - kPage), kStep) == 16 * kMiB);
  CHECK(f.policy.amount_to_gather(request_of(4 * kMiB), kStep) == 4 * kMiB);
  f.policy.boot(true);
  CHECK(f.policy.amount_to_gather(request_of(64 * kKiB), kStep) == 64 * kKiB);
}

TEST_CASE(
    "little may lie idle before pages are moved, and less for large requests in a large heap") {
  const auto is_tight = [](size_t held, size_t size, size_t idle, size_t cached = 0) {
    Held f(held);
    f.leave_idle(idle);
    return f.policy.is_tight(size, cached);
  };
  struct {
    size_t held, size, border;
  } const cases[] = {
      {48 * kMiB, 64 * kKiB, 16 * kMiB},            // a small heap
      {64 * kMiB, 64 * kKiB, 5 * kMiB},             // a large one
      {320 * kMiB, 64 * kKiB, 16 * kMiB},           // a twentieth
      {384 * kMiB, kMiB, 16 * kMiB},                // a 24th
      {512 * kMiB, 4 * kMiB, 16 * kMiB},            // a 32nd
      {48 * kMiB, 4 * kMiB, 16 * kMiB - 4 * kKiB},  // 64 MiB of 48, of 12 MiB, in whole pages
      {96 * kMiB, 4 * kMiB, 8 * kMiB - 4 * kKiB},   // 64 MiB of 96
  };
  for (const auto& [held, size, border] : cases) {
    INFO(held / kMiB << " MiB held, " << size / kKiB << " KiB wanted");
    CHECK(is_tight(held, size, border - 64 * kKiB));
    CHECK_FALSE(is_tight(held, size, border + 64 * kKiB));
    CHECK_FALSE(
        is_tight(held, size, border - 64 * kKiB, 128 * kKiB));  // what is cached is idle, too
  }
  // Larger than all that may lie idle: it is moved for.
  CHECK(is_tight(512 * kMiB, 16 * kMiB, 0));
  CHECK_FALSE(is_tight(512 * kMiB, 16 * kMiB + kPage, 0));
}

TEST_CASE("pages that nobody touched are moved from half of the heap on") {
  Held f(64 * kMiB);
  f.leave_idle(32 * kMiB - kPage);
  CHECK_FALSE(f.policy.may_move_untouched());
  f.leave_idle(32 * kMiB);
  CHECK(f.policy.may_move_untouched());
}

TEST_CASE("caches keep blocks that nobody touched until half of the heap lies idle") {
  Held f(64 * kMiB);
  const Request request = request_of(kMiB);
  f.leave_idle(16 * kMiB);
  CHECK(f.policy.may_keep_untouched(request, 16 * kMiB - kPage));
  CHECK_FALSE(f.policy.may_keep_untouched(request, 16 * kMiB));
  f.policy.boot(true);
  CHECK_FALSE(f.policy.may_keep_untouched(request, 0));
}

TEST_CASE("where threads wait for a depot, caches keep such blocks until seven eighths lie idle") {
  Held f(64 * kMiB);
  const Request request = request_of(kMiB);
  f.leave_idle(16 * kMiB);
  Depot& depot = f.store().depots.of(request.use, request.node, true);
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over) {
      size_t size = 0;
      (void)depot.take_largest(SIZE_MAX, SIZE_MAX, &size);
    }
  });
  // Long enough for the other thread to come while the lock is taken, and then to get it: among
  // many processes it waits for a processor, too.
  std::chrono::microseconds time{100};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (depot.waits() < 64 && std::chrono::steady_clock::now() < until) {
    const uint64_t before = depot.waits();
    depot.lock();
    std::this_thread::sleep_for(time);
    depot.unlock();
    std::this_thread::sleep_for(time);
    if (depot.waits() == before) time = std::min(2 * time, std::chrono::microseconds(100'000));
  }
  is_over = true;
  other.join();
  REQUIRE(depot.waits() >= 64);
  CHECK(f.policy.may_keep_untouched(request, 40 * kMiB - kPage));
  CHECK_FALSE(f.policy.may_keep_untouched(request, 40 * kMiB));
}

TEST_CASE("caches keep blocks that nobody touched in half of what a limit leaves") {
  enum Limit { kMemlock, kMemoryCap, kWindow };
  for (const Limit limit : {kMemlock, kMemoryCap, kWindow}) {
    TestHeap tested;
    if (limit == kMemlock) fake::machine().lock = {80 * kMiB, 80 * kMiB, false};
    if (limit == kMemoryCap) tested.set("MEMORY_CAP=80M");
    if (limit == kWindow) tested.set("WINDOW=256M");
    REQUIRE(tested.boot().take(64 * kMiB) != nullptr);
    const GatheringPolicy policy(tested->store());
    const Budget& budget = tested->budget();
    const size_t left = limit == kMemlock     ? budget.pin_limit().left()
                        : limit == kMemoryCap ? budget.memory().cap() - budget.charges().held()
                                              : tested->store().window.size() / 16;
    INFO("limit " << limit << ", " << left / kMiB << " MiB left");
    REQUIRE(left <= 16 * kMiB);
    const size_t most = left / 2;
    CHECK(policy.may_keep_untouched(request_of(kMiB), most - kPage));
    CHECK_FALSE(policy.may_keep_untouched(request_of(kMiB), most));
  }
}

TEST_CASE(
    "other nodes' pages serve a request when an eighth more than was ever live would be held") {
  Held alone(256 * kMiB);
  alone.leave_idle(128 * kMiB);
  CHECK_FALSE(alone.policy.is_ample(kMiB));  // there is no other node
  TestHeap tested;
  fake::machine().nodes = 2;
  tested.boot();
  REQUIRE(tested.take(256 * kMiB) != nullptr);
  GatheringPolicy policy(tested->store());
  {
    Locked hold(tested->store().mutex());
    policy.note_live();
  }
  CHECK_FALSE(policy.is_ample(32 * kMiB));
  tested->store().live.remove(RegionUse::kExtents, 128 * kMiB);
  CHECK_FALSE(policy.is_ample(32 * kMiB));
  CHECK(policy.is_ample(32 * kMiB + kPage));
}

TEST_CASE("a block is moved while there are few regions and half of the addresses") {
  Held f(0, {"WINDOW=2G"});
  Locked hold(f.store().mutex());
  CHECK(f.policy.may_move_block(2047));
  CHECK_FALSE(f.policy.may_move_block(2048));
  while (f.store().window.left() > kGiB) REQUIRE(f.store().window.carve(64 * kMiB) != nullptr);
  CHECK_FALSE(f.policy.may_move_block(0));
  f.policy.boot(true);
  CHECK(f.policy.may_move_block(0));
}

TEST_CASE("blocks from 256 KiB on are moved in a heap below 64 MiB, and from 1 MiB on in others") {
  CHECK(Held(64 * kMiB - kPage).policy.least_block() == 256 * kKiB);
  CHECK(Held(64 * kMiB).policy.least_block() == kMiB);
}

TEST_CASE("all but the largest blocks are moved for half of the time, or a ninth in a small heap") {
  const auto [held, share] = GENERATE(std::pair<size_t, uint64_t>{32 * kMiB, 8},
                                      std::pair<size_t, uint64_t>{64 * kMiB, 1});
  Held f(held);
  Locked hold(f.store().mutex());
  const auto move_for = [&](size_t size, uint64_t ns) REQUIRES(growth_lock) {
    fake::compute(ns);
    f.policy.note_moving(size, ns);
  };
  const auto has_time = [&](size_t size)
                            REQUIRES(growth_lock) { return f.policy.has_time_to_move(size); };
  constexpr uint64_t kMs = 1'000'000;
  constexpr uint64_t kSaved = 10 * kMs;
  move_for(4 * kMiB, share * kMs);
  move_for(kMiB, kSaved + kMs);
  CHECK(has_time(kMiB));
  move_for(4 * kMiB - kPage, 1);
  CHECK_FALSE(has_time(kMiB));
  CHECK_FALSE(has_time(4 * kMiB - kPage));
  CHECK(has_time(4 * kMiB));
  fake::compute(share);
  CHECK(has_time(kMiB));
  move_for(kMiB, 1);
  CHECK_FALSE(has_time(kMiB));
  f.policy.boot(true);
  CHECK(has_time(kMiB));
}

TEST_CASE("nothing is gathered for more alignment than a granule, or beyond 3072 regions") {
  Held f(64 * kMiB);
  f.leave_idle(40 * kMiB);
  Locked hold(f.store().mutex());
  Request request = request_of(kMiB);
  CHECK(f.policy.may_gather(request, 16 * kMiB, 3071));
  CHECK_FALSE(f.policy.may_gather(request, 16 * kMiB, 3072));
  CHECK_FALSE(f.policy.may_gather(request, 64 * kKiB - kPage, 0));  // a few pages
  request.alignment = 2 * Window::kGranule;
  CHECK_FALSE(f.policy.may_gather(request, 16 * kMiB, 0));
}

TEST_CASE("less than a 32nd of what is wanted is not worth gathering, nor are a few pages enough") {
  Held f(64 * kMiB);
  CHECK(f.policy.is_enough(64 * kKiB));
  CHECK_FALSE(f.policy.is_enough(64 * kKiB - kPage));
  Locked hold(f.store().mutex());
  CHECK(f.policy.is_worth_gathering(32 * kMiB, kMiB));
  CHECK_FALSE(f.policy.is_worth_gathering(32 * kMiB, kMiB - kPage));
}

TEST_CASE("the more addresses are used up, the more a gathering must bring") {
  Held f(64 * kMiB, {"WINDOW=2G"});
  Locked hold(f.store().mutex());
  CHECK(f.policy.is_worth_gathering(kMiB, kMiB));
  while (f.store().window.left() > kGiB) REQUIRE(f.store().window.carve(64 * kMiB) != nullptr);
  CHECK_FALSE(f.policy.is_worth_gathering(kMiB, kMiB));
  CHECK(f.policy.is_worth_gathering(kMiB, 32 * kMiB));
}

TEST_CASE("moves end when they were six times the most that was live, for requests below 1 MiB") {
  Held f(320 * kMiB);
  f.leave_idle(40 * kMiB - kPage);  // more than is tolerated, and less than an eighth
  Locked hold(f.store().mutex());
  const Request small = request_of(64 * kKiB);
  const Request large = request_of(kMiB);
  f.policy.note_gathered(small, 6 * 320 * kMiB);
  CHECK(f.policy.may_gather(small, 16 * kMiB, 0));
  f.policy.note_gathered(small, kPage);
  CHECK_FALSE(f.policy.may_gather(small, 16 * kMiB, 0));
  CHECK(f.policy.may_gather(large, 16 * kMiB, 0));
  CHECK(f.policy.may_gather(request_of(4 * kMiB), 16 * kMiB, 0));
}

TEST_CASE("then moves go on from an eighth of the heap on while they take a ninth of the time") {
  Held f(320 * kMiB);
  Locked hold(f.store().mutex());
  const Request small = request_of(64 * kKiB);
  const auto may_gather = [&] { return f.policy.may_gather(small, 16 * kMiB, 0); };
  const auto move_for = [&](uint64_t ns) REQUIRES(growth_lock) {
    fake::compute(ns);
    f.policy.note_gathering(small, ns);
  };
  constexpr uint64_t kMs = 1'000'000;
  constexpr uint64_t kSaved = 10 * kMs;
  f.policy.note_gathered(small, 6 * 320 * kMiB + kPage);
  f.leave_idle(40 * kMiB);
  CHECK(may_gather());
  move_for(kSaved + kMs);
  CHECK_FALSE(may_gather());
  fake::compute(8 * kMs - 8);
  CHECK_FALSE(may_gather());
  fake::compute(8);
  CHECK(may_gather());
}

TEST_CASE("requests from 4 MiB on have time of their own, as much as all else takes") {
  Held f(320 * kMiB);
  f.leave_idle(80 * kMiB);
  Locked hold(f.store().mutex());
  const Request small = request_of(kMiB);
  const Request large = request_of(4 * kMiB);
  const auto move_for = [&](const Request& request, uint64_t ns) REQUIRES(growth_lock) {
    fake::compute(ns);
    f.policy.note_gathering(request, ns);
  };
  constexpr uint64_t kMs = 1'000'000;
  move_for(small, 11 * kMs);
  CHECK_FALSE(f.policy.may_gather(small, 16 * kMiB, 0));
  CHECK(f.policy.may_gather(large, 16 * kMiB, 0));
  move_for(large, 60 * kMs);
  CHECK_FALSE(f.policy.may_gather(large, 16 * kMiB, 0));
  fake::compute(60 * kMs);
  CHECK(f.policy.may_gather(large, 16 * kMiB, 0));
  CHECK(f.policy.may_gather(small, 16 * kMiB, 0));
}

TEST_CASE("of pages that are renewed half stay away at most, while a sixth of the heap is idle") {
  struct {
    size_t held, idle, given, amount;  // held and idle without what was given
  } const cases[] = {
      {320 * kMiB, 39 * kMiB, 16 * kMiB, 16 * kMiB},  // less than a sixth
      {320 * kMiB, 40 * kMiB, 16 * kMiB, 8 * kMiB},
      {80 * kMiB, 0, 20 * kMiB, 12 * kMiB + kMiB / 2},  // then an eighth is idle
  };
  for (const auto& [held, idle, given, amount] : cases) {
    Held f(held);
    f.leave_idle(idle);
    INFO(held / kMiB << " MiB held, " << idle / kMiB << " MiB idle");
    CHECK(f.policy.amount_to_renew(request_of(64 * kKiB), given) == amount);
    CHECK(f.policy.amount_to_renew(request_of(24 * kMiB), given) == 24 * kMiB);
  }
}

TEST_CASE(
    "a region is a step, or what is asked for; steps begin small and are a share of the heap") {
  struct {
    size_t held;
    RegionUse use;
    size_t step;
  } const cases[] = {
      {0, RegionUse::kExtents, 128 * kKiB},
      {512 * kKiB, RegionUse::kExtents, 512 * kKiB},  // as much again, within a granule
      {8 * kMiB, RegionUse::kExtents, 2 * kMiB},      // a quarter
      {32 * kMiB, RegionUse::kExtents, 4 * kMiB},     // at most 4 MiB
      {96 * kMiB, RegionUse::kExtents, 8 * kMiB},     // a twelfth
      {0, RegionUse::kBlocks, 8 * kMiB},
      {160 * kMiB, RegionUse::kBlocks, 10 * kMiB},  // a sixteenth
  };
  for (const auto& [held, use, step] : cases) {
    TestHeap tested;
    tested.boot();
    if (held != 0) {
      REQUIRE((use == RegionUse::kBlocks ? tested.malloc(held) : tested.take(held)) != nullptr);
    }
    const GrowthPolicy policy(tested->store(), tested->publisher());
    INFO(held / kKiB << " KiB held, " << static_cast<int>(use));
    Locked hold(tested->store().mutex());
    CHECK(policy.amount(request_of(kPage, use)) == step);
    CHECK(policy.amount(request_of(step + kPage, use)) == step + kPage);
  }
}

TEST_CASE("a heap that memory is given back to grows by a 64th, and by 4 MiB at least") {
  for (const size_t held : {128 * kMiB, 512 * kMiB}) {
    TestHeap tested;
    tested.boot();
    REQUIRE(tested.take(held) != nullptr);
    const GrowthPolicy policy(tested->store(), tested->publisher());
    const auto amount = [&] {
      Locked hold(tested->store().mutex());
      return policy.amount(request_of(kPage, RegionUse::kExtents));
    };
    tested->store().live.note_given(held / 4);
    CHECK(amount() == os::page_ceil(held / 12));
    tested->store().live.note_given(kPage);
    CHECK(amount() == std::max(held / 64, 4 * kMiB));
  }
}

TEST_CASE("where memory is given back, a heap of small objects below 128 MiB grows by 1 MiB") {
  const auto amount = [](size_t objects, size_t blocks, size_t given, RegionUse use) {
    TestHeap tested;
    tested.boot();
    REQUIRE(tested.take(objects) != nullptr);
    REQUIRE(tested.malloc(blocks) != nullptr);
    REQUIRE(tested->budget().charges().held() == objects + blocks);
    const GrowthPolicy policy(tested->store(), tested->publisher());
    Locked hold(tested->store().mutex());
    tested->store().live.note_given(given);
    return policy.amount(request_of(kPage, use));
  };
  constexpr auto kExtents = RegionUse::kExtents;
  constexpr auto kBlocks = RegionUse::kBlocks;
  CHECK(amount(60 * kMiB, 20 * kMiB, 20 * kMiB, kBlocks) == 8 * kMiB);
  CHECK(amount(60 * kMiB, 20 * kMiB, 20 * kMiB + kPage, kBlocks) == kMiB);
  CHECK(amount(60 * kMiB, 20 * kMiB, 20 * kMiB + kPage, kExtents) == kMiB);
  CHECK(amount(100 * kMiB, 28 * kMiB, 32 * kMiB + kPage, kBlocks) == 4 * kMiB);
  CHECK(amount(100 * kMiB, 28 * kMiB, 32 * kMiB + kPage, kExtents) == 4 * kMiB);
  // A heap of blocks.
  CHECK(amount(40 * kMiB, 40 * kMiB, 20 * kMiB + kPage, kBlocks) == 4 * kMiB);
  CHECK(amount(kMiB, 79 * kMiB, 20 * kMiB + kPage, kExtents) ==
        amount(kMiB, 79 * kMiB, 0, kExtents));
}

TEST_CASE("where memory is given back, small objects in a heap of blocks grow by no more for it") {
  TestHeap tested;
  tested.boot();
  REQUIRE(tested.malloc(128 * kMiB) != nullptr);
  const GrowthPolicy policy(tested->store(), tested->publisher());
  Locked hold(tested->store().mutex());
  const size_t before = policy.amount(request_of(kPage, RegionUse::kExtents));
  tested->store().live.note_given(64 * kMiB);
  CHECK(policy.amount(request_of(kPage, RegionUse::kExtents)) == before);
}

TEST_CASE("in a small window no region is smaller than a granule can hold") {
  TestHeap tested({"WINDOW=512M"});
  tested.boot();
  const GrowthPolicy policy(tested->store(), tested->publisher());
  Locked hold(tested->store().mutex());
  CHECK(policy.amount(request_of(kPage, RegionUse::kExtents)) == Window::kGranule - kPage);
}

}  // namespace rdmalloc
