// Lookups that come while a large region is still being registered: they have their part of it
// registered, and wait for no more.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "regcache/registry.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_region_source.h"

namespace rdmalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLarge = 64 * kMiB;

// A backend whose k-th registration does not return before it is told to.
struct Fixture {
  fake::RegionSource source;
  fake::Backend backend;
  std::unique_ptr<Registry> registry = std::make_unique<Registry>(source);
  std::atomic<int> calls{0};
  std::atomic<int> held_call{1};
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_go_on{false};

  Fixture() {
    backend.on_register_context = this;
    backend.on_register = [](void* context) { static_cast<Fixture*>(context)->on_register(); };
  }
  ~Fixture() {
    may_go_on = true;
    registry->stop();
  }

  void on_register() {
    if (++calls != held_call) return;
    is_held = true;
    while (!may_go_on) std::this_thread::yield();
  }
  void wait_until_held() const {
    while (!is_held) std::this_thread::yield();
  }
  void go_on(Domain* domain, const Region& region) {
    may_go_on = true;
    for (rdm_mr mr{}; mr.length != region.length;) {
      REQUIRE(domain->lookup(at(region), 1, &mr) == RDM_OK);
      std::this_thread::yield();
    }
  }

  Domain* open(unsigned flags = 0) {
    rdm_domain_options options{};
    options.size = sizeof options;
    options.flags = flags;
    const rdm_backend ops = backend.ops();
    Domain* domain = nullptr;
    REQUIRE(registry->open(&ops, &backend, &options, &domain) == RDM_OK);
    return domain;
  }

  static void* at(const Region& region, size_t offset = 0) {
    return reinterpret_cast<void*>(region.base + offset);
  }
  rdm_mr look_up(Domain* domain, const Region& region, size_t offset, size_t length) const {
    rdm_mr mr{};
    REQUIRE(domain->lookup(at(region, offset), length, &mr) == RDM_OK);
    REQUIRE(backend.covers(mr, at(region, offset), length));
    return mr;
  }
};

template <typename Check>
bool comes(Check check) {
  for (int i = 0; i < 5000 && !check(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return check();
}

}  // namespace

TEST_CASE_METHOD(Fixture, "a lookup in a large region does not wait for the rest of it") {
  Domain* const domain = open();
  const Region& region = source.acquire(kLarge);
  wait_until_held();  // the registrar has the region
  const rdm_mr first = look_up(domain, region, 5 * kMiB, 4096);
  CHECK(first.length <= 16 * kMiB);
  CHECK(look_up(domain, region, 6 * kMiB, 4096).lkey == first.lkey);
  CHECK(calls == 2);
  const rdm_mr across = look_up(domain, region, 15 * kMiB, 2 * kMiB);
  CHECK(across.length <= 16 * kMiB);
  CHECK(look_up(domain, region, kLarge - 1, 1).length <= 16 * kMiB);
  go_on(domain, region);
  // Who has a part's key has it still.
  CHECK(backend.covers(first, at(region, 5 * kMiB), 4096));
  CHECK(look_up(domain, region, 5 * kMiB, 4096).length == kLarge);
  CHECK(Domain::put(domain, &first) == RDM_OK);
  CHECK(registry->validate());
  CHECK(registry->close(domain) == RDM_OK);
  CHECK(backend.registered().empty());
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture,
                 "a first lookup in a large region leaves the rest of it to the registrar") {
  const Region& region = source.acquire(kLarge);
  held_call = 2;
  Domain* const domain = open(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(domain, region, 0, 4096).length < kLarge);
  wait_until_held();
  CHECK(look_up(domain, region, 40 * kMiB, 4096).length < kLarge);
  go_on(domain, region);
  CHECK(backend.registered_bytes() > kLarge);
  CHECK(registry->validate());
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture, "what most of a region is asked for is registered with it, once") {
  const Region& region = source.acquire(kLarge);
  held_call = 0;
  Domain* const domain = open(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(domain, region, 0, kLarge / 2 + 1).length == kLarge);
  CHECK(backend.calls() == 1);
}

TEST_CASE_METHOD(Fixture, "a device that registers memory once is asked for no part ahead") {
  backend.limits.abilities = RDM_BACKEND_ONCE;
  const Region& region = source.acquire(kLarge);
  held_call = 0;
  Domain* const domain = open(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(domain, region, 0, 4096).length == kLarge);
  CHECK(backend.calls() == 1);
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture, "a part goes when its region has lost its pages") {
  Domain* const domain = open();
  const Region& region = source.acquire(kLarge);
  wait_until_held();
  (void)look_up(domain, region, 0, 4096);
  (void)look_up(domain, region, 20 * kMiB, 4096);
  may_go_on = true;
  REQUIRE(comes([&] { return backend.registered_bytes() >= kLarge; }));
  (void)source.retire(region, 0, kLarge);
  CHECK(comes([&] { return registry->has_let_go(region); }));
  CHECK(backend.registered().empty());
  CHECK(registry->validate());
}

TEST_CASE_METHOD(Fixture, "no part is registered over pages that are gone") {
  Domain* const domain = open(RDM_DOMAIN_WHEN_ASKED);
  const Region& region = source.acquire(kLarge);
  (void)source.retire(region, kMiB, 4096);
  held_call = 2;
  const rdm_mr mr = look_up(domain, region, 2 * kMiB, 4096);
  CHECK(mr.length == 4096);
  rdm_mr none{};
  CHECK(domain->lookup(at(region, kMiB), 1, &none) == RDM_NOT_OWNED);
  wait_until_held();
}

TEST_CASE_METHOD(Fixture, "a part that may not be pinned beside the region is waited for with it") {
  source.limit = kLarge + 4 * kMiB;
  Domain* const domain = open(RDM_DOMAIN_WHEN_ASKED);
  const Region& region = source.acquire(kLarge);
  backend.limits.charges = RDM_CHARGES_PROCESS;
  held_call = 0;
  REQUIRE(registry->close(domain) == RDM_OK);
  Domain* const charged = open(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(charged, region, 0, 20 * kMiB).length >= 20 * kMiB);
  CHECK(comes([&] { return registry->validate(); }));
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture, "threads that look up everywhere at once get good keys, and one region") {
  held_call = 0;
  backend.on_register = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  Domain* const domain = open();
  for (int round = 0; round < 8; ++round) {
    const Region& region = source.acquire(kLarge);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 64; ++i) {
          const size_t offset = (i * 7 + t * 13) % 64 * kMiB;
          rdm_mr mr{};
          if (domain->lookup(at(region, offset), 4096, &mr) != RDM_OK ||
              !backend.covers(mr, at(region, offset), 4096)) {
            ++wrong;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(comes([&] { return look_up(domain, region, 0, 1).length == kLarge; }));
    (void)source.retire(region, 0, kLarge);
    CHECK(comes([&] { return registry->has_let_go(region); }));
  }
  CHECK(registry->validate());
  CHECK(backend.registered().empty());
}

}  // namespace rdmalloc
