// Lookups during the registration of a large region: they register just their part, and wait for no
// more.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/registry_fixture.h"

namespace rdmalloc {
namespace {

using fake::at;
using test::comes;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLarge = 64 * kMiB;

// A backend in which the registrar's first registration does not return until the test says so.
struct Fixture : fake::RegistryFixture {
  std::atomic<int> calls{0};
  std::atomic<bool> holds_registrar{true};
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_go_on{false};
  const std::thread::id test_thread = std::this_thread::get_id();

  Fixture() {
    backend.on_register_context = this;
    backend.on_register = [](void* context) { static_cast<Fixture*>(context)->on_register(); };
  }
  ~Fixture() {
    may_go_on = true;
    registry->stop();
  }

  void on_register() {
    ++calls;
    const bool is_registrar = std::this_thread::get_id() != test_thread;
    if (!holds_registrar || !is_registrar || is_held.exchange(true)) return;
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

  rdm_mr look_up(Domain* domain, const Region& region, size_t offset, size_t length) const {
    rdm_mr mr{};
    REQUIRE(domain->lookup(at(region, offset), length, &mr) == RDM_OK);
    REQUIRE(backend.covers(mr, at(region, offset), length));
    return mr;
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a lookup in a large region does not wait for the rest of it") {
  Domain* const domain = opened();
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
  // The holder of a part's key still has it.
  CHECK(backend.covers(first, at(region, 5 * kMiB), 4096));
  CHECK(look_up(domain, region, 5 * kMiB, 4096).length == kLarge);
  CHECK(Domain::put(domain, &first) == RDM_OK);
  check_closes_clean(domain);
}

TEST_CASE_METHOD(Fixture,
                 "no more is registered than is asked for: a region is once a part saved one") {
  const Region& region = source.acquire(kLarge);
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(domain, region, 0, 4096).length < kLarge);
  CHECK(look_up(domain, region, 40 * kMiB, 4096).length < kLarge);
  // The registrar has nothing to do.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(calls == 2);
  CHECK(look_up(domain, region, 8192, 4096).length < kLarge);
  wait_until_held();
  CHECK(calls == 3);
  CHECK(look_up(domain, region, 20 * kMiB, 4096).length < kLarge);
  go_on(domain, region);
  CHECK(calls == 4);
  CHECK(backend.registered_bytes() > kLarge);
  CHECK(is_valid());
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture,
                 "a region of which very many parts were asked for is registered in time") {
  constexpr size_t kPart = 8 * kMiB;
  const Region& region = source.acquire(400 * kPart);
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  for (size_t i = 0; i < 200; ++i) (void)look_up(domain, region, i * kPart, 4096);
  CHECK_FALSE(is_held);
  for (size_t i = 200; i < 300; ++i) (void)look_up(domain, region, i * kPart, 4096);
  REQUIRE(comes([&] { return is_held.load(); }));
  CHECK(look_up(domain, region, 300 * kPart, 4096).length <= 2 * kPart);
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture, "what most of a region is asked for is registered with it, once") {
  const Region& region = source.acquire(kLarge);
  holds_registrar = false;
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(domain, region, 0, kLarge / 2 + 1).length == kLarge);
  CHECK(backend.calls() == 1);
}

TEST_CASE_METHOD(Fixture, "a device that registers memory once is asked for no part ahead") {
  backend.limits.abilities = RDM_BACKEND_ONCE;
  const Region& region = source.acquire(kLarge);
  holds_registrar = false;
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(domain, region, 0, 4096).length == kLarge);
  CHECK(backend.calls() == 1);
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture, "a part goes when its region has lost its pages") {
  Domain* const domain = opened();
  const Region& region = source.acquire(kLarge);
  wait_until_held();
  (void)look_up(domain, region, 0, 4096);
  (void)look_up(domain, region, 20 * kMiB, 4096);
  may_go_on = true;
  REQUIRE(comes([&] { return backend.registered_bytes() >= kLarge; }));
  (void)source.retire(region, 0, kLarge);
  CHECK(comes([&] { return registry->has_let_go(region); }));
  CHECK(backend.registered().empty());
  CHECK(is_valid());
}

TEST_CASE_METHOD(Fixture, "no part is registered over pages that are gone") {
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  const Region& region = source.acquire(kLarge);
  (void)source.retire(region, kMiB, os::page_size());
  const rdm_mr mr = look_up(domain, region, 2 * kMiB, 4096);
  CHECK(mr.length == os::page_size());
  rdm_mr none{};
  CHECK(domain->lookup(at(region, kMiB), 1, &none) == RDM_NOT_OWNED);
  (void)look_up(domain, region, 2 * kMiB, 4096);
  wait_until_held();
}

TEST_CASE_METHOD(Fixture, "a part that may not be pinned beside the region is waited for with it") {
  source.limit = kLarge + 4 * kMiB;
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  const Region& region = source.acquire(kLarge);
  backend.limits.charges = RDM_CHARGES_PROCESS;
  holds_registrar = false;
  REQUIRE(registry->close(domain) == RDM_OK);
  Domain* const charged = opened(RDM_DOMAIN_WHEN_ASKED);
  CHECK(look_up(charged, region, 0, 20 * kMiB).length >= 20 * kMiB);
  CHECK(is_valid());
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture, "threads that ask for one part at once register it once") {
  const Region& region = source.acquire(kLarge);
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  backend.on_register = [](void*) {  // the other comes meanwhile
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      rdm_mr mr{};
      if (domain->lookup(at(region, t * 4096), 4096, &mr) != RDM_OK || mr.length == kLarge) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  registry->stop();  // the second asked the registrar for the region
  size_t parts = 0;
  for (const fake::Backend::Registered& one : backend.registered()) {
    parts += one.length < kLarge ? 1 : 0;
  }
  CHECK(parts == 1);
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture, "a lookup does not wait forever for a part that another registers") {
  const Region& region = source.acquire(kLarge);
  Domain* const domain = opened(RDM_DOMAIN_WHEN_ASKED);
  rdm_mr slow{};
  int status = RDM_SYSTEM;
  std::thread hangs([&] { status = domain->lookup(at(region), 4096, &slow); });
  wait_until_held();
  (void)look_up(domain, region, 0, 4096);
  may_go_on = true;
  hangs.join();
  CHECK(status == RDM_OK);
  CHECK(backend.covers(slow, at(region), 4096));
}

TEST_CASE_METHOD(Fixture, "threads that look up everywhere at once get good keys, and one region") {
  holds_registrar = false;
  backend.on_register = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  Domain* const domain = opened();
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
  CHECK(is_valid());
  CHECK(backend.registered().empty());
}

}  // namespace rdmalloc
