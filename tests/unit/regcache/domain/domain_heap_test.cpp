// Domains on the heap itself, over fake system calls: what runs inside malloc and what does not.

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "allocator/mutex.h"
#include "regcache/domain/registry.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/comes.h"
#include "tests/support/fake_backend.h"
#include "tests/support/test_heap.h"
#include "tests/support/test_heap_source.h"

namespace rdmalloc {
namespace {

using fake::kGiB;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;
using test::comes;

struct Fixture {
  TestHeap heap;
  fake::Backend backend;
  std::unique_ptr<fake::TestHeapSource> source;
  std::unique_ptr<Registry> registry;

  explicit Fixture(int nodes = 1) {
    fake::machine().nodes = nodes;
    heap.boot();
    source = std::make_unique<fake::TestHeapSource>(*heap);
    registry = std::make_unique<Registry>(*source);
  }
  ~Fixture() { registry->stop(); }

  Domain* open() {
    const rdm_backend ops = backend.ops();
    Domain* domain = nullptr;
    REQUIRE(registry->open(&ops, &backend, nullptr, &domain) == RDM_OK);
    return domain;
  }
};

// Of all regions with pages, including pages that were moved away: their registrations remain.
size_t length_of_regions(TestHeap& heap) {
  size_t sum = 0;
  for (size_t i = 0; i < heap->regions().size(); ++i) {
    const Region& region = heap->regions()[i];
    sum += region.is_empty() ? 0 : region.length;
  }
  return sum;
}

// Without the parts of regions that were registered ahead of the rest.
size_t registered_once(const fake::Backend& backend) {
  const auto all = backend.registered();
  size_t sum = 0;
  for (const auto& one : all) {
    const bool is_part = std::any_of(all.begin(), all.end(), [&](const auto& other) {
      return other.length > one.length && one.base >= other.base &&
             one.base + one.length <= other.base + other.length;
    });
    sum += is_part ? 0 : one.length;
  }
  return sum;
}

// Regions that have pages, but no registration.
size_t count_unregistered(TestHeap& heap, const fake::Backend& backend) {
  const auto registered = backend.registered();
  size_t count = 0;
  for (size_t i = 0; i < heap->regions().size(); ++i) {
    const Region& region = heap->regions()[i];
    const auto is_of_region = [&](const fake::Backend::Registered& one) {
      return region.contains(one.base);
    };
    if (!region.is_empty() && std::none_of(registered.begin(), registered.end(), is_of_region)) {
      ++count;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a driver that allocates while it registers does not deadlock, and misses no region") {
  Fixture f;
  struct Greedy {
    TestHeap* heap;
    std::atomic<int> left{40};
  } greedy{&f.heap};
  f.backend.on_register_context = &greedy;
  f.backend.on_register = [](void* context) {
    auto* g = static_cast<Greedy*>(context);
    if (--g->left > 0) (void)g->heap->take(8 * kMiB);
  };
  Domain* domain = f.open();
  void* object = f.heap.take(kMiB);
  rdm_mr mr{};
  REQUIRE(domain->lookup(object, kMiB, &mr) == RDM_OK);
  CHECK(comes([&] { return count_unregistered(f.heap, f.backend) == 0; }));
  CHECK(f.backend.violations().empty());
  CHECK(f.heap.unsound() == "");
}

TEST_CASE("what lies where it is touched first is registered when it is first looked up") {
  for (const unsigned abilities : {0U, unsigned{RDM_BACKEND_IN_MALLOC}}) {
    Fixture f(2);
    f.backend.limits.abilities = abilities;
    void* const before = f.heap.malloc(kMiB);
    Domain* domain = f.open();
    void* const after = f.heap.malloc(64 * kMiB);
    REQUIRE(f.heap.region_of(after).by_touch);
    CHECK_FALSE(f.heap.region_of(after).populated);
    CHECK(f.backend.registered().empty());
    for (void* const block : {before, after}) {
      rdm_mr mr{};
      REQUIRE(domain->lookup(block, kMiB, &mr) == RDM_OK);
      CHECK(f.backend.covers(mr, block, kMiB));
      CHECK(comes(
          [&] { return __atomic_load_n(&f.heap.region_of(block).populated, __ATOMIC_RELAXED); }));
    }
    REQUIRE(f.heap.take(kPage) != nullptr);  // placed, and registered as before
    CHECK(comes([&] { return count_unregistered(f.heap, f.backend) == 0; }));
    CHECK(f.heap.unsound() == "");
  }
}

TEST_CASE("debug builds abort when a driver would be called inside malloc") {
  Fixture f;
  Domain* domain = f.open();
  const Region& region = f.heap.region_of(f.heap.take(kPage));
  (void)f.registry->close(domain);
  f.registry->stop();
  fake::Backend in_malloc;
  in_malloc.limits.abilities = RDM_BACKEND_IN_MALLOC;
  const auto register_inside = [&](fake::Backend& backend) {
    Domain fresh;
    PinAccount account;
    DomainCounters counters;
    Retries retries{f.source.get(), &account, [](void*, bool) { return true; }, nullptr};
    const rdm_backend ops = backend.ops();
    fresh.bind(nullptr, f.source.get(), &account, &retries, &counters);
    if (fresh.open(ops, &backend, 0, 0) != RDM_OK) return;
    Mutex growth(Rank::kGrowth);
    Locked inside(growth);
    (void)fresh.registration().register_region(region, RegionCaller::kRegistrar);
  };
  CHECK(test::crashes([&] { register_inside(f.backend); }));
  CHECK_FALSE(test::crashes([&] { register_inside(in_malloc); }));
}

TEST_CASE("every object of a growing heap has one key, in a domain of either kind") {
  for (const unsigned abilities : {0U, unsigned{RDM_BACKEND_IN_MALLOC}}) {
    Fixture f;
    f.backend.limits.abilities = abilities;
    Domain* domain = f.open();
    std::vector<std::pair<void*, size_t>> objects;
    size_t size = kPage;
    for (int i = 0; i < 300; ++i) {
      size = (size * 7 + 3 * kPage) % (24 * kMiB) / kPage * kPage + kPage;
      if (void* object = f.heap.take(size)) objects.emplace_back(object, size);
    }
    for (const auto& [object, bytes] : objects) {
      rdm_mr mr{};
      REQUIRE(domain->lookup(object, bytes, &mr) == RDM_OK);
      REQUIRE(f.backend.covers(mr, object, bytes));
    }
    // A region that was registered after pages had been moved away is registered without them, and
    // a region that has lost all its pages does not stay registered for long.
    CHECK(comes([&] { return registered_once(f.backend) >= f.heap->budget().charges().held(); }));
    CHECK(comes([&] { return registered_once(f.backend) <= length_of_regions(f.heap); }));
    if (abilities == 0) continue;
    CHECK(f.backend.registered_bytes() == length_of_regions(f.heap));
    CHECK(f.backend.calls() >= f.heap->regions().size());
  }
}

TEST_CASE("a domain that opens over a heap that gathered registers the pages that are left") {
  for (const unsigned abilities : {0U, unsigned{RDM_BACKEND_IN_MALLOC}}) {
    Fixture f;
    f.backend.limits.abilities = abilities;
    constexpr size_t kSize = 512 * fake::kKiB;
    std::vector<void*> live(64);
    for (void*& block : live) block = f.heap.malloc(kSize);
    std::vector<void*> freed;
    for (size_t i = 0; i < live.size(); ++i) {
      // Of the first regions nothing is left, of the others every other block.
      if (i < live.size() / 4 || i % 2 == 0) freed.push_back(std::exchange(live[i], nullptr));
    }
    for (void* block : freed) REQUIRE(f.heap.free(block));
    live.push_back(f.heap.malloc(kSize * freed.size()));
    REQUIRE(heap_counters(*f.heap).gathered != 0);
    const auto is_retired = [&](uintptr_t address, size_t size) {
      return f.heap->marks().is_retired(address, size);
    };

    Domain* domain = f.open();
    CHECK(comes([&] { return count_unregistered(f.heap, f.backend) == 0; }));
    for (const auto& one : f.backend.registered()) CHECK_FALSE(is_retired(one.base, one.length));
    rdm_mr mr{};
    for (void* block : live) {
      if (block == nullptr) continue;
      REQUIRE(domain->lookup(block, kSize, &mr) == RDM_OK);
      CHECK(f.backend.covers(mr, block, kSize));
    }
    size_t retired = 0;
    size_t in_no_region = 0;
    for (void* block : freed) {
      if (!is_retired(reinterpret_cast<uintptr_t>(block), kSize)) continue;
      ++retired;
      in_no_region += f.heap->regions().find(block) == nullptr ? 1 : 0;
      CHECK(domain->lookup(block, kSize, &mr) == RDM_NOT_OWNED);
    }
    CHECK(retired > in_no_region);
    CHECK(in_no_region > 0);
    CHECK(f.backend.violations().empty());
    CHECK(f.heap.unsound() == "");
  }
}

TEST_CASE("the heap goes on when the backend fails at its k-th call, for every k") {
  for (uint64_t k = 1; k <= 12; ++k) {
    Fixture f;
    f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
    Domain* domain = f.open();
    f.backend.fail_from = k;
    size_t known = 0;
    for (int i = 0; i < 12; ++i) {
      void* object = f.heap.take(64 * kMiB);
      REQUIRE(object != nullptr);
      rdm_mr mr{};
      if (domain->lookup(object, 64 * kMiB, &mr) != RDM_OK) continue;
      REQUIRE(f.backend.covers(mr, object, 64 * kMiB));
      ++known;
    }
    const size_t regions = f.heap->regions().size();
    CHECK(f.backend.registered().size() == (k - 1 < regions ? k - 1 : regions));
    CHECK(known >= f.backend.registered().size());
    CHECK(f.heap.unsound() == "");
    CHECK(comes([&f] { return f.registry->domains().validate(); }));
    CHECK(f.registry->close(domain) == RDM_OK);
    CHECK(f.backend.registered().empty());
  }
}

TEST_CASE("a heap grown by doubling to 16 GiB has fewer than 64 MRs, by 1 MiB fewer than 100") {
  if (!fake::needs_whole_window()) return;
  for (const bool doubling : {true, false}) {
    Fixture f;
    fake::machine().total = 64 * kGiB;
    f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
    f.open();
    size_t held = 0;
    for (size_t size = kMiB; held < 16 * kGiB; size *= doubling ? 2 : 1) {
      REQUIRE(f.heap.take(size) != nullptr);
      held += size;
    }
    INFO(f.backend.registered().size() << " MRs, grown by " << (doubling ? "doubling" : "1 MiB"));
    CHECK(f.backend.registered().size() < (doubling ? 64 : 100));
    CHECK(f.backend.registered_bytes() == length_of_regions(f.heap));
  }
}

}  // namespace rdmalloc
