// Keys with counted users, over a fake backend: unused ones can be given back, used ones never are.
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/registry_fixture.h"

namespace rdmalloc {
namespace {

using fake::at;
using test::comes;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kRegion = 4 * kMiB;

struct Fixture : fake::RegistryFixture {
  void check_backend() const {
    for (const std::string& violation : backend.violations()) FAIL_CHECK(violation);
  }
  void contend(const std::vector<const Region*>& regions);

  // As the shims open theirs.
  Domain* open() {
    return opened(RDM_DOMAIN_WHEN_ASKED | RDM_DOMAIN_DO_NOT_WAIT | RDM_DOMAIN_PARTIAL);
  }

  // A key and its use.
  struct Held {
    rdm_mr mr{};
    uint32_t use = 0;
  };
  Held hold(Domain* domain, const Region& region, size_t offset = 0, size_t length = 1) const {
    Held held;
    REQUIRE(domain->key_holds().hold(at(region, offset), length, &held.mr, &held.use) == RDM_OK);
    REQUIRE(backend.covers(held.mr, at(region, offset), length));
    return held;
  }
  bool is_good(const Held& held) const { return backend.covers(held.mr, held.mr.base, 1); }
};

// Threads that request and release keys, and one that gives back.
void Fixture::contend(const std::vector<const Region*>& regions) {
  constexpr uint64_t kLeastGiven = 50;
  constexpr int kLeastAsked = 20'000;
  constexpr int kMostAsked = 10'000'000;
  Domain* const domain = open();
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> held{0};
  std::atomic<uint64_t> given{0};
  const auto ask = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kLeastAsked || (given < kLeastGiven && i < kMostAsked); ++i) {
      const Region& region = *regions[random() % regions.size()];
      const size_t offset = random() % region.length;
      rdm_mr mr{};
      uint32_t use = 0;
      if (domain->key_holds().hold(at(region, offset), 1, &mr, &use) != RDM_OK) continue;
      if (random() % 8 == 0) std::this_thread::yield();
      if (!backend.covers(mr, at(region, offset), 1)) ++wrong;
      domain->key_holds().let_go(use);
      ++held;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 3; ++seed) threads.emplace_back(ask, seed);
  std::thread giver([&] {
    while (!is_over) {
      if (registry->room().make_room(&domain, 1, kRegion, false)) {
        ++given;
        registry->room().end();
      }
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  giver.join();
  CHECK(wrong == 0);
  CHECK(held != 0);
  CHECK(given >= kLeastGiven);
  registry->stop();
  (void)domain->key_holds().give_back(SIZE_MAX);
  CHECK(backend.registered().empty());
  CHECK(is_valid());
  CHECK(registry->close(domain) == RDM_OK);
}

}  // namespace

TEST_CASE_METHOD(Fixture, "registrations whose key nobody has are given back, and the rest stays") {
  Domain* const domain = open();
  const Region& first = source.acquire(kRegion);
  const Region& second = source.acquire(kRegion);
  const Region& third = source.acquire(kRegion);
  const Held of_first = hold(domain, first);
  const Held of_second = hold(domain, second);
  const Held again = hold(domain, second, kMiB);
  domain->key_holds().let_go(hold(domain, third).use);
  CHECK(domain->key_holds().unused_bytes() == kRegion);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == kRegion);
  CHECK(is_good(of_first));
  domain->key_holds().let_go(of_second.use);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == 0);
  CHECK(is_good(again));
  domain->key_holds().let_go(again.use);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == kRegion);
  CHECK(is_good(of_first));
  CHECK(backend.registered_bytes() == kRegion);
  CHECK(is_valid());
  // It is registered again on request, and not before.
  registry->stop();  // the test runs its rounds
  (void)registry->rounds().work();
  CHECK(backend.registered_bytes() == kRegion);
  (void)hold(domain, second);
  CHECK(backend.registered_bytes() == 2 * kRegion);
  check_backend();
}

TEST_CASE_METHOD(Fixture, "no more is given back than is asked for") {
  Domain* const domain = open();
  for (int i = 0; i < 4; ++i) domain->key_holds().let_go(hold(domain, source.acquire(kRegion)).use);
  CHECK(domain->key_holds().give_back(0) == 0);
  CHECK(domain->key_holds().give_back(kRegion + 1) == 2 * kRegion);
  CHECK(backend.registered_bytes() == 2 * kRegion);
  CHECK(domain->key_holds().give_back(1) == kRegion);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == kRegion);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == 0);
}

TEST_CASE_METHOD(Fixture, "a domain whose keys are not counted gives nothing back") {
  Domain* const domain = open();
  const Region& region = source.acquire(kRegion);
  rdm_mr mr{};
  REQUIRE(domain->lookup(at(region), 1, &mr) == RDM_OK);
  CHECK(domain->key_holds().unused_bytes() == 0);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == 0);
  CHECK(backend.covers(mr, at(region), 1));
}

TEST_CASE_METHOD(Fixture, "a part that is in use stays when the rest of its region goes") {
  constexpr size_t kLarge = 64 * kMiB;
  Domain* const domain = open();
  const Region& region = source.acquire(kLarge);
  const Held part = hold(domain, region, 5 * kMiB);
  CHECK(part.mr.length < kLarge);
  domain->key_holds().let_go(hold(domain, region, 5 * kMiB).use);
  REQUIRE(comes([&] { return backend.registered().size() == 2; }));  // by the registrar
  CHECK(domain->key_holds().give_back(SIZE_MAX) == kLarge);
  CHECK(is_good(part));
  // A lookup now gives the region's key, and no longer the part's.
  REQUIRE(comes([&] {
    const Held any = hold(domain, region, 5 * kMiB);
    domain->key_holds().let_go(any.use);
    return any.mr.length == kLarge;
  }));
  const Held whole = hold(domain, region, 5 * kMiB);
  domain->key_holds().let_go(part.use);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == 0);
  CHECK(is_good(whole));
  domain->key_holds().let_go(whole.use);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == kLarge + part.mr.length);
  CHECK(backend.registered().empty());
  CHECK(registry->close(domain) == RDM_OK);
  check_backend();
}

TEST_CASE_METHOD(Fixture, "what is just being registered in advance is waited for, and goes") {
  struct Strangers {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> is_held{false};
    std::atomic<bool> may_go_on{false};
  } held;
  backend.on_register_context = &held;
  backend.on_register = [](void* context) {
    auto* const its = static_cast<Strangers*>(context);
    if (std::this_thread::get_id() == its->caller) return;
    its->is_held = true;
    while (!its->may_go_on) std::this_thread::yield();
  };
  Domain* const domain = open();
  const Region& region = source.acquire(64 * kMiB);
  const Held part = hold(domain, region);
  domain->key_holds().let_go(hold(domain, region).use);
  REQUIRE(comes([&] { return held.is_held.load(); }));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.may_go_on = true;
  });
  CHECK(registry->room().make_room(&domain, 1, 1, false));
  CHECK(backend.registered().size() == 1);
  CHECK(is_good(part));
  registry->room().end();
  other.join();
  check_backend();
  registry->stop();
}

TEST_CASE_METHOD(Fixture, "of a region in pieces all go, or none") {
  backend.limits.max_length = kMiB;
  Domain* const domain = open();
  const Region& region = source.acquire(kRegion);
  const Held piece = hold(domain, region, kMiB);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == 0);
  CHECK(is_good(piece));
  domain->key_holds().let_go(piece.use);
  CHECK(domain->key_holds().give_back(1) == kRegion);
  CHECK(backend.registered().empty());
  (void)hold(domain, region, 2 * kMiB);
  CHECK(backend.registered().size() == 4);
  CHECK(is_valid());
  check_backend();
}

TEST_CASE_METHOD(Fixture, "a key that was never found is in nobody's use") {
  backend.fail_from = 1;
  Domain* const domain = open();
  const Region& region = source.acquire(kRegion);
  rdm_mr mr{};
  uint32_t use = 0;
  CHECK(domain->key_holds().hold(at(region), 1, &mr, &use) == RDM_NOT_REGISTERED);
  CHECK(domain->key_holds().hold(at(region), kRegion + 1, &mr, &use) == RDM_NOT_OWNED);
  CHECK(domain->key_holds().hold(&use, 1, &mr, &use) == RDM_NOT_OWNED);
  CHECK(domain->key_holds().give_back(SIZE_MAX) == 0);
  backend.fail_from = 0;
  REQUIRE(registry->close(domain) == RDM_OK);
  Domain* const next = open();
  next->key_holds().let_go(hold(next, region).use);
  CHECK(next->key_holds().give_back(SIZE_MAX) == kRegion);
}

TEST_CASE_METHOD(Fixture, "what the device does not take back is not counted as given back") {
  Domain* const domain = open();
  const Region& region = source.acquire(kRegion);
  domain->key_holds().let_go(hold(domain, region).use);
  backend.deregister_status = RDM_SYSTEM;
  CHECK(domain->key_holds().give_back(SIZE_MAX) == 0);
  backend.deregister_status = RDM_OK;
  (void)hold(domain, region);
}

TEST_CASE_METHOD(Fixture, "room is made of all that is asked, or of nothing") {
  Domain* const domain = open();
  for (int i = 0; i < 2; ++i) domain->key_holds().let_go(hold(domain, source.acquire(kRegion)).use);
  CHECK_FALSE(registry->room().make_room(&domain, 1, 2 * kRegion + 1, true));
  CHECK(backend.registered_bytes() == 2 * kRegion);
  CHECK(registry->room().make_room(&domain, 1, 2 * kRegion + 1, false));
  CHECK(backend.registered_bytes() == 0);
  registry->room().end();
  CHECK_FALSE(registry->room().make_room(&domain, 1, 1, false));
}

TEST_CASE_METHOD(Fixture, "the room that was made is kept until it has been tried") {
  Domain* const domain = open();
  const Region& region = source.acquire(kRegion);
  domain->key_holds().let_go(hold(domain, region).use);
  REQUIRE(registry->room().make_room(&domain, 1, 1, false));
  rdm_mr mr{};
  uint32_t use = 0;
  CHECK(domain->key_holds().hold(at(region), 1, &mr, &use) == RDM_NOT_REGISTERED);
  CHECK(backend.registered().empty());
  registry->room().end();
  domain->key_holds().let_go(hold(domain, region).use);
  CHECK(backend.registered_bytes() == kRegion);
  // A second end, by a child or a driver, keeps nobody from it.
  registry->room().end();
  (void)hold(domain, source.acquire(kRegion));
}

TEST_CASE_METHOD(Fixture, "a registration of ours makes no room for itself") {
  struct Nested {
    Registry* registry;
    Domain* domain = nullptr;
    bool is_made = false;
  } nested{registry.get()};
  Domain* const domain = open();
  domain->key_holds().let_go(hold(domain, source.acquire(kRegion)).use);
  nested.domain = domain;
  backend.on_register_context = &nested;
  backend.on_register = [](void* context) {
    auto* const its = static_cast<Nested*>(context);
    its->is_made = its->registry->room().make_room(&its->domain, 1, 1, false);
  };
  (void)hold(domain, source.acquire(kRegion));
  CHECK_FALSE(nested.is_made);
  CHECK(backend.registered_bytes() == 2 * kRegion);
}

TEST_CASE_METHOD(Fixture, "a child lets go of its parent's keys, and gives nothing back") {
  Domain* const domain = open();
  const Region& region = source.acquire(kRegion);
  const Held held = hold(domain, region);
  domain->key_holds().let_go(hold(domain, source.acquire(kRegion)).use);
  registry->stop();  // a child has none
  source.fork();
  CHECK_FALSE(registry->room().make_room(&domain, 1, 1, false));
  domain->key_holds().let_go(held.use);
  CHECK(backend.registered_bytes() == 2 * kRegion);
  CHECK(registry->close(domain) == RDM_OK);
}

TEST_CASE_METHOD(Fixture, "asking for a key and giving it back race, and one wins") {
  contend({&source.acquire(kRegion), &source.acquire(kRegion), &source.acquire(kRegion)});
  check_backend();
}

// The registrar registers these while parts of them come and go. If two threads reach the same part
// at once, each registers it.
TEST_CASE_METHOD(Fixture, "... and of those who ask for parts of large regions, too") {
  contend({&source.acquire(64 * kMiB), &source.acquire(64 * kMiB)});
}

}  // namespace rdmalloc
