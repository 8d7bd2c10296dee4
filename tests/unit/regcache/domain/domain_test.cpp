// Domains over a fake backend and regions added by hand: no heap, no jemalloc, no device.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/registry_fixture.h"

namespace rdmalloc {
namespace {

using fake::at;

constexpr size_t kMiB = size_t{1} << 20;
const size_t kPage = os::page_size();

// The backends belong to the tests, and outlive it.
struct Fixture : fake::RegistryFixture {
  int open(fake::Backend& with, Domain** out, unsigned flags = 0, unsigned access = 0,
           std::string* error = nullptr) {
    char why[200] = {};
    rdm_domain_options options{};
    options.size = sizeof options;
    options.flags = flags;
    options.access = access;
    options.error = why;
    options.error_size = sizeof why;
    const rdm_backend ops = with.ops();
    const int status = registry->open(&ops, &with, &options, out);
    if (error != nullptr) *error = why;
    return status;
  }

  Domain* opened(fake::Backend& with, unsigned flags = 0, unsigned access = 0) {
    rdm_domain_options options{};
    options.flags = flags;
    options.access = access;
    return RegistryFixture::opened(with, options);
  }
};

void in_malloc(fake::Backend& backend) { backend.limits.abilities |= RDM_BACKEND_IN_MALLOC; }

// For every byte of the regions: what a lookup claims, an MR covers; returns how much is claimed.
size_t claimed(Domain* domain, const fake::Backend& backend, const fake::RegionSource& source) {
  size_t bytes = 0;
  for (size_t i = 0; i < source.regions().size(); ++i) {
    const Region& region = source.regions()[i];
    for (size_t offset = 0; offset < region.length; offset += kPage) {
      rdm_mr mr{};
      const int status = domain->lookup(at(region, offset), kPage, &mr);
      if (status == RDM_OK) {
        REQUIRE(backend.covers(mr, at(region, offset), kPage));
        bytes += kPage;
      } else {
        REQUIRE(status == RDM_NOT_REGISTERED);
      }
    }
  }
  return bytes;
}

void wait_for(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

}  // namespace

TEST_CASE("a domain registers when asked, and only what is asked for") {
  fake::Backend backend;
  Fixture f;
  if (GENERATE(false, true)) in_malloc(backend);
  const Region& first = f.source.acquire(4 * kMiB);
  Domain* domain = f.opened(backend, RDM_DOMAIN_WHEN_ASKED);
  f.registry->stop();  // the test runs its rounds
  const Region& second = f.source.acquire(4 * kMiB);
  (void)f.registry->rounds().work();
  REQUIRE(f.counters().registrations == 0);
  REQUIRE_FALSE(f.registry->wants_pages(second));
  rdm_mr mr{};
  REQUIRE(domain->lookup(at(second), 1, &mr) == RDM_OK);
  REQUIRE(backend.covers(mr, at(second), second.length));
  REQUIRE(domain->lookup(at(second, kMiB), 1, &mr) == RDM_OK);
  (void)f.registry->rounds().work();
  REQUIRE(f.counters().registrations == 1);
  REQUIRE(domain->lookup(at(first), 1, &mr) == RDM_OK);
  REQUIRE(f.counters().registrations == 2);
  REQUIRE(f.registry->close(domain) == RDM_OK);
  // The next use of the same domain again registers regions as they are acquired.
  domain = f.opened(backend);
  REQUIRE(f.counters().registrations == 4);
}

TEST_CASE("a late domain is replayed every region, and then told of new ones") {
  fake::Backend backend;
  Fixture f;
  in_malloc(backend);
  const Region& before = f.source.acquire(3 * kMiB);
  Domain* domain = f.opened(backend);
  const Region& after = f.source.acquire(kMiB);
  CHECK(backend.calls() == 2);
  for (const Region* region : {&before, &after}) {
    rdm_mr mr{};
    REQUIRE(domain->lookup(at(*region, kPage + 5), 100, &mr) == RDM_OK);
    CHECK(mr.base == at(*region));
    CHECK(mr.length == region->length);
    CHECK(backend.covers(mr, at(*region, kPage + 5), 100));
  }
  CHECK(backend.calls() == 2);
  CHECK(f.is_valid());
}

TEST_CASE("a domain of its callers' threads is called in no other") {
  fake::Backend other;
  Fixture f;
  (void)f.opened(other);  // for that one the registrar runs
  struct Caller {
    std::thread::id thread = std::this_thread::get_id();
    std::atomic<int> strangers{0};
  } caller;
  fake::Backend backend;
  backend.on_register = [](void* context) {
    auto* const its = static_cast<Caller*>(context);
    if (its->thread != std::this_thread::get_id()) ++its->strangers;
  };
  backend.on_register_context = &caller;
  f.source.acquire(kMiB);
  Domain* domain = f.opened(backend, RDM_DOMAIN_CALLERS_ONLY);
  CHECK(backend.calls() == 0);
  const Region& region = f.source.acquire(kMiB);
  while (other.registered().size() < 2) std::this_thread::yield();
  CHECK(backend.calls() == 0);
  rdm_mr mr{};
  REQUIRE(domain->lookup(at(region), kPage, &mr) == RDM_OK);
  // Retired memory stays registered until the next caller comes.
  (void)f.source.retire(region, 0, kMiB);
  while (other.registered().size() > 1) std::this_thread::yield();
  CHECK(backend.registered().size() == 1);
  const Region& next = f.source.acquire(kMiB);
  REQUIRE(domain->lookup(at(next), kPage, &mr) == RDM_OK);
  CHECK(backend.registered().size() == 1);
  // A refused registration is retried by a lookup, when it is due.
  const Region& refused = f.source.acquire(2 * kMiB);
  backend.fail_only = backend.calls() + 1;
  CHECK(domain->lookup(at(refused), kPage, &mr) == RDM_NOT_REGISTERED);
  f.source.now += uint64_t{1} << 40;
  CHECK(domain->lookup(at(refused), kPage, &mr) == RDM_OK);
  int foreign = 0;
  CHECK(Domain::get(domain, &foreign, sizeof foreign, &mr) == RDM_UNSUPPORTED);
  CHECK(caller.strangers == 0);
  fake::Backend inside;
  in_malloc(inside);
  Domain* none = nullptr;
  CHECK(f.open(inside, &none, RDM_DOMAIN_CALLERS_ONLY) == RDM_INVALID);
}

TEST_CASE(
    "before a fork a domain that releases then has nothing registered, and lookups register anew") {
  fake::Backend backend;
  fake::Backend other;
  Fixture f;
  in_malloc(backend);
  in_malloc(other);
  Domain* domain = f.opened(backend, RDM_DOMAIN_RELEASE_AT_FORK);
  Domain* kept = f.opened(other);
  const Region& region = f.source.acquire(kMiB);
  CHECK_FALSE(domain->hold());
  CHECK(backend.registered().size() == 1);
  f.registry->domains().release_for_fork();
  CHECK(backend.registered().empty());
  CHECK(other.registered().size() == 1);
  rdm_mr mr{};
  REQUIRE(domain->lookup(at(region), kPage, &mr) == RDM_OK);
  CHECK(backend.covers(mr, at(region), kPage));
  // From then on, unrequested regions cost the next fork nothing.
  const Region& unused = f.source.acquire(kMiB);
  CHECK(backend.registered().size() == 1);
  REQUIRE(kept->lookup(at(unused), kPage, &mr) == RDM_OK);
  REQUIRE(domain->lookup(at(unused), kPage, &mr) == RDM_OK);
  CHECK(backend.registered().size() == 2);
  f.registry->domains().release_for_fork();
  CHECK(backend.registered().empty());
  CHECK(f.is_valid());
}

TEST_CASE("a lookup answers for exactly the bytes of a region") {
  fake::Backend backend;
  Fixture f;
  in_malloc(backend);
  const Region& region = f.source.acquire(5 * kPage);
  const Region& next = f.source.acquire(2 * kMiB);
  Domain* domain = f.opened(backend);
  const uint64_t lookups_before = f.counters().lookups;
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 5 * kPage, &mr) == RDM_OK);
  CHECK(domain->lookup(at(region, 5 * kPage - 1), 1, &mr) == RDM_OK);
  CHECK(domain->lookup(at(region, 5 * kPage - 1), 2, &mr) == RDM_NOT_OWNED);
  CHECK(domain->lookup(at(region), 5 * kPage + 1, &mr) == RDM_NOT_OWNED);
  CHECK(domain->lookup(at(region, 5 * kPage), 1, &mr) == RDM_NOT_OWNED);  // the gap
  CHECK(domain->lookup(at(region), SIZE_MAX, &mr) == RDM_NOT_OWNED);
  CHECK(domain->lookup(at(region, 1), SIZE_MAX, &mr) == RDM_NOT_OWNED);
  CHECK(domain->lookup(at(region), 0, &mr) == RDM_INVALID);
  CHECK(domain->lookup(at(region, static_cast<size_t>(-1)), 1, &mr) == RDM_NOT_OWNED);
  CHECK(domain->lookup(at(next, 2 * kMiB - kPage), kPage, &mr) == RDM_OK);
  CHECK(domain->lookup(nullptr, 1, &mr) == RDM_NOT_OWNED);
  CHECK(domain->lookup(&mr, 1, &mr) == RDM_NOT_OWNED);
  const RegistrationCounters counters = f.counters();
  CHECK(counters.lookups - lookups_before == 12);
  CHECK(counters.lookup_misses == 9);
}

TEST_CASE("a region that is not pinned is in no domain, but in one that pages on demand") {
  fake::Backend plain;
  fake::Backend paging;
  Fixture f;
  paging.limits.abilities = RDM_BACKEND_ON_DEMAND;
  paging.limits.charges = RDM_CHARGES_PROCESS;
  const Region& overflow = f.source.acquire(kMiB, RegionKind::kOverflow);
  const Region& sparse = f.source.acquire(kMiB, RegionKind::kSparse);
  const Region& pinned = f.source.acquire(kMiB);
  Domain* domain = f.opened(plain);
  Domain* on_demand = f.opened(paging);
  rdm_mr mr{};
  CHECK(domain->lookup(at(pinned), 1, &mr) == RDM_OK);
  CHECK(domain->lookup(at(overflow), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(domain->lookup(at(sparse), 1, &mr) == RDM_NOT_REGISTERED);
  for (const Region* region : {&overflow, &sparse, &pinned}) {
    CHECK(on_demand->lookup(at(*region), 1, &mr) == RDM_OK);
  }
  CHECK(f.counters().registered_bytes == 4 * kMiB);
  CHECK(f.counters().registered_pinned_bytes == kMiB);
  CHECK(plain.violations().empty());
  CHECK(paging.violations().empty());
  CHECK(f.is_valid());
}

TEST_CASE("remote rights go to exposed regions, and to the heap only when it is shared by name") {
  fake::Backend careful;
  fake::Backend sharing;
  Fixture f;
  f.source.acquire(kMiB);
  f.source.acquire(kMiB, RegionKind::kPinned, true);
  const unsigned all = RDM_LOCAL_WRITE | RDM_REMOTE_WRITE | RDM_REMOTE_READ | RDM_REMOTE_ATOMIC;
  f.opened(careful, 0, all);
  f.opened(sharing, RDM_DOMAIN_SHARE_HEAP, all);
  REQUIRE(careful.registered().size() == 2);
  CHECK(careful.registered()[0].access == RDM_LOCAL_WRITE);
  CHECK(careful.registered()[1].access == all);
  CHECK(careful.registered()[1].exposed);
  for (const auto& one : sharing.registered()) CHECK(one.access == all);
}

TEST_CASE("several domains register each region once") {
  fake::Backend backends[3];
  Fixture f;
  in_malloc(backends[0]);
  Domain* domains[3];
  f.source.acquire(kMiB);
  for (int i = 0; i < 3; ++i) domains[i] = f.opened(backends[i]);
  const Region& late = f.source.acquire(2 * kMiB);
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 3; ++i) {
      rdm_mr mr{};
      REQUIRE(domains[i]->lookup(at(late, 77), 1000, &mr) == RDM_OK);
      REQUIRE(backends[i].covers(mr, at(late, 77), 1000));
    }
  }
  CHECK(f.counters().domains == 3);
  CHECK(f.counters().registrations == 6);
  CHECK(f.counters().registered_bytes == 9 * kMiB);
  for (const fake::Backend& backend : backends) {
    CHECK(backend.calls() == 2);
    CHECK(backend.violations().empty());
  }
  CHECK(f.registry->close(domains[1]) == RDM_OK);
  CHECK(backends[1].registered().empty());
  CHECK(backends[0].registered().size() == 2);
  CHECK(backends[1].closed() == 1);
  CHECK(f.counters().registered_bytes == 6 * kMiB);
}

TEST_CASE("a backend that may not run inside malloc is called by other threads, or by lookups") {
  fake::Backend backend;
  Fixture f;
  struct Watch {
    std::thread::id acquiring = std::this_thread::get_id();
    std::atomic<bool> inside{false};
    std::atomic<bool> called_inside{false};
  } watch;
  backend.on_register_context = &watch;
  backend.on_register = [](void* context) {
    auto* w = static_cast<Watch*>(context);
    if (w->inside && std::this_thread::get_id() == w->acquiring) w->called_inside = true;
  };
  Domain* domain = f.opened(backend);
  for (int i = 0; i < 50; ++i) {
    watch.inside = true;
    const Region& region = f.source.acquire(kMiB);
    watch.inside = false;
    if (i % 2 == 0) continue;  // leave it to the registrar
    rdm_mr mr{};
    REQUIRE(domain->lookup(at(region), kMiB, &mr) == RDM_OK);
    REQUIRE(backend.covers(mr, at(region), kMiB));
  }
  for (int i = 0; i < 10'000 && backend.registered().size() != 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(backend.registered().size() == 50);
  CHECK(backend.calls() == 50);
  CHECK_FALSE(watch.called_inside);
  CHECK(backend.violations().empty());
}

TEST_CASE("a lookup waits for another thread's registration instead of making a second") {
  fake::Backend backend;
  Fixture f;
  struct Gate {
    std::atomic<bool> entered{false};
    std::atomic<bool> open{false};
  } gate;
  Domain* domain = f.opened(backend);
  backend.on_register_context = &gate;
  backend.on_register = [](void* context) {
    auto* g = static_cast<Gate*>(context);
    g->entered = true;
    wait_for(g->open);
  };
  const Region& region = f.source.acquire(kMiB);
  wait_for(gate.entered);  // the registrar is working on it
  std::atomic<int> status{-1};
  std::thread reader([&] {
    rdm_mr mr{};
    status = domain->lookup(at(region), 1, &mr);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(status == -1);
  gate.open = true;
  reader.join();
  CHECK(status == RDM_OK);
  CHECK(backend.calls() == 1);
}

TEST_CASE("opening undoes what it did when the k-th registration fails, for every k") {
  for (const bool inside : {false, true}) {
    for (uint64_t k = 1; k <= 9; ++k) {
      Fixture f;
      fake::Backend backend;
      if (inside) in_malloc(backend);
      backend.limits.max_length = 2 * kMiB;
      backend.limits.charges = RDM_CHARGES_PROCESS;
      for (size_t i = 1; i <= 4; ++i) f.source.acquire(i * kMiB + kPage);  // 1 + 2 + 2 + 3 MRs
      backend.fail_only = k;
      Domain* domain = nullptr;
      std::string error;
      const int status = f.open(backend, &domain, 0, 0, &error);
      if (k == 9) {
        CHECK(status == RDM_OK);
        continue;
      }
      CHECK(status == RDM_SYSTEM);
      CHECK(domain == nullptr);
      CHECK(error == "call " + std::to_string(k) + " was to fail");
      CHECK(backend.registered().empty());
      CHECK(backend.closed() == 0);
      CHECK(f.counters().domains == 0);
      CHECK(f.counters().registered_bytes == 0);
      CHECK(f.counters().registered_pinned_bytes == 0);
      CHECK(backend.violations().empty());
      CHECK(f.open(backend, &domain) == RDM_OK);
      CHECK(f.is_valid());
    }
  }
}

TEST_CASE("a failure while attached leaves that region out until it is tried again") {
  fake::Backend backend;
  Fixture f;
  in_malloc(backend);
  Domain* domain = f.opened(backend);
  backend.fail_from = 1;
  const Region& region = f.source.acquire(kMiB);
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(std::string(domain->why()) == "call 2 was to fail");  // the first one was inside malloc
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(backend.calls() == 2);
  backend.fail_from = 0;
  f.source.now += 120'000'000;
  (void)f.registry->rounds().work();
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_OK);
  CHECK(f.is_valid());
}

TEST_CASE("a domain opened in part says which regions it has") {
  fake::Backend backend;
  Fixture f;
  in_malloc(backend);  // only one thread registers, so the second call is for the second region
  const Region& first = f.source.acquire(kMiB);
  const Region& second = f.source.acquire(kMiB);
  const Region& third = f.source.acquire(kMiB);
  backend.fail_only = 2;
  Domain* domain = f.opened(backend, RDM_DOMAIN_PARTIAL);
  rdm_mr mr{};
  CHECK(domain->lookup(at(first), 1, &mr) == RDM_OK);
  CHECK(domain->lookup(at(second), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(domain->lookup(at(third), 1, &mr) == RDM_OK);
}

TEST_CASE("whom a backend in malloc puts off asks again later, and another thread at once") {
  fake::Backend backend;
  Fixture f;
  in_malloc(backend);
  backend.fail_from = 1;
  backend.fail_status = RDM_BACKEND_LATER;
  const Region& region = f.source.acquire(kMiB);
  Domain* domain = f.opened(backend);
  rdm_mr mr{};
  for (int i = 0; i < 100; ++i) CHECK(domain->lookup(at(region), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(backend.calls() <= 3);
  backend.fail_from = 0;
  std::thread([&] { CHECK(domain->lookup(at(region), 1, &mr) == RDM_OK); }).join();
}

TEST_CASE("a lookup waits while a driver asks to come later, as it does during a fork") {
  fake::Backend backend;
  Fixture f;
  Domain* domain = f.opened(backend);
  backend.fail_status = RDM_BACKEND_LATER;
  backend.fail_from = 1;
  const Region& region = f.source.acquire(kMiB);
  std::thread forker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    backend.fail_from = 0;
  });
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_OK);
  forker.join();
  // The registrar retries what nobody looks up.
  backend.fail_from = 1;
  f.source.acquire(kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  backend.fail_from = 0;
  for (int i = 0; i < 10'000 && backend.registered().size() != 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(backend.registered().size() == 2);
}

TEST_CASE("with MRs of 2 MiB, 8 of them, no byte is claimed that no MR covers") {
  fake::Backend backend;
  Fixture f;
  in_malloc(backend);
  backend.limits.max_length = 2 * kMiB;
  backend.limits.max_count = 8;
  f.source.acquire(5 * kMiB);  // 3 pieces
  Domain* domain = f.opened(backend);
  CHECK(claimed(domain, backend, f.source) == 5 * kMiB);
  f.source.acquire(128 * 1024);
  f.source.acquire(2 * kMiB);
  f.source.acquire(64 * kMiB);  // 3 of its 32 pieces
  f.source.acquire(kMiB);       // none
  CHECK(backend.registered().size() == 8);
  CHECK(claimed(domain, backend, f.source) == 5 * kMiB + 128 * 1024 + 2 * kMiB + 6 * kMiB);
  CHECK(claimed(domain, backend, f.source) == backend.registered_bytes());
  const Region& cut = f.source.regions()[0];
  rdm_mr mr{};
  CHECK(domain->lookup(at(cut, 2 * kMiB), 2 * kMiB, &mr) == RDM_OK);
  CHECK(mr.length == 2 * kMiB);
  CHECK(domain->lookup(at(cut, 2 * kMiB - 1), 2, &mr) == RDM_NOT_REGISTERED);
  CHECK(backend.violations().empty());
  CHECK(f.is_valid());
  CHECK(f.registry->close(domain) == RDM_OK);
  CHECK(backend.registered().empty());
}

TEST_CASE("rdm_get looks once before it says that the device's limits are in the way") {
  fake::Backend backend;
  Fixture f;
  in_malloc(backend);
  backend.limits.max_length = 2 * kMiB;
  backend.limits.max_count = 2;
  const Region& cut = f.source.acquire(5 * kMiB);  // 2 of its 3 pieces
  Domain* domain = f.opened(backend);
  const size_t offset = GENERATE(2 * kMiB - 1, 4 * kMiB);
  rdm_mr mr{};
  CHECK(Domain::get(domain, at(cut, offset), 2, &mr) == RDM_NOT_REGISTERED);
  CHECK(std::string(last_error()).find("the device's limits") == 0);
  CHECK(f.counters().lookup_misses == 1);
}

TEST_CASE("rdm_get says of retired memory that it is retired, and looks once") {
  fake::Backend backend;
  Fixture f;
  const Region& region = f.source.acquire(5 * kMiB);
  Domain* domain = f.opened(backend);
  (void)f.source.retire(region, kMiB, kPage);
  rdm_mr mr{};
  CHECK(Domain::get(domain, at(region, kMiB), 2, &mr) == RDM_NOT_OWNED);
  CHECK(std::string(last_error()).find("the memory at these addresses was retired") == 0);
  CHECK(f.counters().lookup_misses == 1);
}

TEST_CASE("an alignment above a page leaves a region's tail out") {
  fake::Backend backend;
  Fixture f;
  backend.limits.alignment = 16 * kPage;
  const Region& large = f.source.acquire(kMiB + kPage);
  const Region& small = f.source.acquire(kPage);
  Domain* domain = f.opened(backend);
  CHECK(claimed(domain, backend, f.source) == kMiB);
  rdm_mr mr{};
  CHECK(domain->lookup(at(large), kMiB, &mr) == RDM_OK);
  CHECK(domain->lookup(at(large), kMiB + 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(domain->lookup(at(large, kMiB - 1), 2, &mr) == RDM_NOT_REGISTERED);
  CHECK(domain->lookup(at(large, kMiB), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(domain->lookup(at(small), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(backend.violations().empty());
}

TEST_CASE("registrations stay within the memlock limit, each domain charged again") {
  Fixture f;
  f.source.limit = 5 * kMiB;
  fake::Backend first;
  fake::Backend second;
  fake::Backend free_of_charge;
  first.limits.charges = RDM_CHARGES_PROCESS;
  second.limits.charges = RDM_CHARGES_PROCESS;
  f.source.acquire(3 * kMiB);
  Domain* one = f.opened(first);
  Domain* two = nullptr;
  std::string error;
  CHECK(f.open(second, &two, 0, 0, &error) == RDM_OUT_OF_BUDGET);
  CHECK(error.find("memlock") != std::string::npos);
  CHECK(second.calls() == 0);
  f.opened(free_of_charge);
  CHECK(f.counters().registered_pinned_bytes == 3 * kMiB);
  CHECK(f.registry->close(one) == RDM_OK);
  CHECK(f.counters().registered_pinned_bytes == 0);
  CHECK(f.open(second, &two) == RDM_OK);
  CHECK(f.counters().registered_pinned_bytes == 3 * kMiB);
}

TEST_CASE("in a child of fork nothing is registered, and a domain of its own can be") {
  fake::Backend backend;
  Fixture f;
  backend.limits.charges = RDM_CHARGES_PROCESS;
  const Region& region = f.source.acquire(kMiB);
  Domain* domain = f.opened(backend);
  f.registry->stop();  // as in a child, which has no such thread
  f.source.fork();
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(f.counters().domains == 0);
  CHECK(f.counters().registered_bytes == 0);
  CHECK(f.counters().registered_pinned_bytes == 0);
  fake::Backend own;
  Domain* mine = f.opened(own);
  CHECK(mine->lookup(at(region), 1, &mr) == RDM_OK);
  CHECK(own.covers(mr, at(region), 1));
  const Region& late = f.source.acquire(kMiB);
  CHECK(mine->lookup(at(late), 1, &mr) == RDM_OK);
  CHECK(domain->lookup(at(late), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(f.registry->close(domain) == RDM_OK);
  CHECK(backend.registered().size() == 1);  // the parent's
  CHECK(backend.closed_in_child() == 1);
  CHECK(f.registry->close(mine) == RDM_OK);
  CHECK(own.registered().empty());
}

TEST_CASE("a child may open a domain whatever its parent's other threads were doing") {
  fake::Backend backend;
  // Without the registrar's thread: it may be inside malloc at the fork, and a sanitizer's malloc
  // is then locked in the child.
  in_malloc(backend);
  Fixture f;
  Domain* const domain = f.opened(backend, RDM_DOMAIN_WHEN_ASKED);
  const Region& region = f.source.acquire(kMiB);
  std::atomic<bool> is_saying{false};
  std::atomic<bool> may_go_on{false};
  f.source.on_warns = [&] {
    is_saying = true;
    while (!may_go_on) std::this_thread::yield();
  };
  backend.fail_from = 1;
  std::thread refused([&] {
    rdm_mr mr{};
    (void)domain->lookup(at(region), 1, &mr);
  });
  while (!is_saying) std::this_thread::yield();
  const test::ChildEnd end = test::run_child([&] {
    f.source.on_warns = nullptr;
    f.source.fork();
    fake::Backend own;
    own.limits.abilities = RDM_BACKEND_IN_MALLOC;  // without a thread, which tsan forbids here
    const rdm_backend ops = own.ops();
    Domain* mine = nullptr;
    if (f.registry->close(domain) != RDM_OK) return false;
    // Until one is in the place of the parent's.
    while (mine != domain) {
      if (f.registry->open(&ops, &own, nullptr, &mine) != RDM_OK) return false;
    }
    return true;
  });
  INFO("the child " << end.sentence());
  CHECK(end.exited_well());
  may_go_on = true;
  refused.join();
}

TEST_CASE("nonsense is refused with a status and a sentence") {
  fake::Backend backend;
  Fixture f;
  const rdm_backend good = backend.ops();
  Domain* out = nullptr;
  rdm_backend ops = good;
  ops.register_memory = nullptr;
  CHECK(f.registry->open(&ops, &backend, nullptr, &out) == RDM_INVALID);
  ops = good;
  ops.size = 8;
  CHECK(f.registry->open(&ops, &backend, nullptr, &out) == RDM_INVALID);
  CHECK(f.registry->open(nullptr, &backend, nullptr, &out) == RDM_INVALID);
  CHECK(f.registry->open(&good, &backend, nullptr, nullptr) == RDM_INVALID);
  rdm_domain_options options{};
  CHECK(f.registry->open(&good, &backend, &options, &out) == RDM_INVALID);  // no size given
  options.size = sizeof options;
  options.flags = 1U << 20;
  CHECK(f.registry->open(&good, &backend, &options, &out) == RDM_INVALID);
  backend.limits.alignment = 3 * kPage;
  std::string error;
  CHECK(f.open(backend, &out, 0, 0, &error) == RDM_INVALID);
  CHECK(error.find("power of two") != std::string::npos);
  backend.limits.alignment = 0;
  backend.limits_status = RDM_UNSUPPORTED;
  CHECK(f.open(backend, &out) == RDM_UNSUPPORTED);
  backend.limits_status = RDM_OK;
  CHECK(out == nullptr);
  REQUIRE(f.open(backend, &out) == RDM_OK);
  CHECK(f.registry->close(out) == RDM_OK);
  CHECK(f.registry->close(out) == RDM_INVALID);
  CHECK(f.registry->close(nullptr) == RDM_INVALID);
  CHECK(f.registry->close(out + 1) == RDM_INVALID);
}

TEST_CASE("a backend that keeps an MR is told of when the domain is closed, and stays charged") {
  fake::Backend backend;
  Fixture f;
  backend.limits.charges = RDM_CHARGES_PROCESS;
  f.source.acquire(kMiB);
  Domain* domain = f.opened(backend);
  backend.deregister_status = RDM_SYSTEM;
  CHECK(f.registry->close(domain) == RDM_SYSTEM);
  CHECK(f.counters().registered_pinned_bytes == kMiB);
  CHECK(f.counters().domains == 0);
}

TEST_CASE("as many domains as there are may be open, and one more is refused") {
  Fixture f;
  f.source.acquire(kMiB);
  std::vector<fake::Backend> backends(Domains::kMost + 1);
  std::vector<Domain*> domains;
  for (size_t i = 0; i < Domains::kMost; ++i) domains.push_back(f.opened(backends[i]));
  Domain* out = nullptr;
  CHECK(f.open(backends.back(), &out) == RDM_BUSY);
  CHECK(f.registry->close(domains[7]) == RDM_OK);
  CHECK(f.open(backends.back(), &out) == RDM_OK);
}

TEST_CASE("no operation of a backend opens or closes a domain") {
  struct ReentrantDevice {
    Fixture fixture;
    fake::Backend other;
    Domain* domain = nullptr;
    int refused = 0;
    void come_back() {
      Domain* out = nullptr;
      if (fixture.open(other, &out) == RDM_BUSY && fixture.registry->close(domain) == RDM_BUSY) {
        ++refused;
      }
    }
  } device;
  device.fixture.source.acquire(kMiB);
  fake::Backend first;
  device.domain = device.fixture.opened(first);
  rdm_backend ops{};
  ops.size = sizeof ops;
  ops.name = "nested";
  ops.limits = [](void* self, rdm_backend_limits*) {
    static_cast<ReentrantDevice*>(self)->come_back();
    return int{RDM_OK};
  };
  ops.register_memory = [](void* self, const rdm_backend_request*, rdm_backend_key*, char*,
                           size_t) {
    static_cast<ReentrantDevice*>(self)->come_back();
    return int{RDM_OK};
  };
  ops.deregister_memory = [](void* self, const rdm_backend_key*) {
    static_cast<ReentrantDevice*>(self)->come_back();
    return int{RDM_OK};
  };
  ops.closed = [](void* self, int) { static_cast<ReentrantDevice*>(self)->come_back(); };
  Domain* out = nullptr;
  REQUIRE(device.fixture.registry->open(&ops, &device, nullptr, &out) == RDM_OK);
  CHECK(device.fixture.registry->close(out) == RDM_OK);
  CHECK(device.refused == 4);
}

TEST_CASE("a caller that may not wait is told when another thread opens a domain") {
  Fixture f;
  f.source.acquire(kMiB);
  struct Second {
    Fixture* fixture;
    int status = RDM_OK;
  } second{&f};
  fake::Backend slow;
  slow.on_register_context = &second;
  slow.on_register = [](void* raw) {
    std::thread([raw] {
      auto* const its = static_cast<Second*>(raw);
      fake::Backend backend;
      Domain* out = nullptr;
      its->status = its->fixture->open(backend, &out, RDM_DOMAIN_DO_NOT_WAIT);
    }).join();
  };
  Domain* const domain = f.opened(slow);
  CHECK(second.status == RDM_BUSY);
  CHECK(f.registry->close(domain) == RDM_OK);
}

TEST_CASE("closing under traffic: no call after it, no byte claimed that is not registered") {
  Fixture f;
  f.source.acquire(kMiB);
  fake::Backend steady;
  in_malloc(steady);
  Domain* kept = f.opened(steady);
  fake::Backend backend;
  std::atomic<bool> done{false};
  std::atomic<Domain*> current{nullptr};
  std::thread grower([&] {
    for (int i = 0; i < 300; ++i) {
      f.source.acquire(kPage * static_cast<size_t>(1 + i % 600));
      std::this_thread::yield();
    }
    done = true;
  });
  std::atomic<int> wrong{0};  // Catch's assertions are for one thread at a time
  std::thread reader([&] {
    size_t round = 0;
    while (!done) {
      const Region& region = f.source.regions()[round++ % f.source.regions().size()];
      rdm_mr mr{};
      // The steady domain always knows; the other, which comes and goes, only must not crash.
      if (kept->lookup(at(region), 1, &mr) != RDM_OK || !steady.covers(mr, at(region), 1)) ++wrong;
      if (Domain* domain = current) (void)domain->lookup(at(region), 1, &mr);
    }
  });
  do {
    Domain* domain = f.opened(backend);
    current = domain;
    std::this_thread::yield();
    REQUIRE(f.registry->close(domain) == RDM_OK);
    REQUIRE(backend.registered().empty());
  } while (!done);
  grower.join();
  reader.join();
  CHECK(wrong == 0);
  CHECK(steady.registered().size() == 301);
  CHECK(steady.violations().empty());
  CHECK(backend.violations().empty());
  CHECK(f.is_valid());
}

}  // namespace rdmalloc
