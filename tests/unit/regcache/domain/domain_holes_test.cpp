// Regions that lost pages: what a domain registers of them, what lookups report, and who releases
// when.
#include <random>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/registry_fixture.h"

namespace rdmalloc {
namespace {

using test::comes;

const size_t kPage = os::page_size();

struct Fixture : fake::RegistryFixture {
  int look_up(Domain* domain, const Region& region, size_t page, size_t pages = 1) const {
    void* const address = fake::at(region, page * kPage);
    rdm_mr mr{};
    const int status = domain->lookup(address, pages * kPage, &mr);
    if (status == RDM_OK) REQUIRE(backend.covers(mr, address, pages * kPage));
    return status;
  }
  bool retire(const Region& region, size_t page, size_t pages) {
    return source.retire(region, page * kPage, pages * kPage);
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "what is left of a region is registered around its holes") {
  backend.limits.abilities = GENERATE(0U, unsigned{RDM_BACKEND_IN_MALLOC});
  const Region& region = source.acquire(64 * kPage);
  REQUIRE(retire(region, 16, 4));
  REQUIRE(retire(region, 40, 1));
  Domain* domain = opened();
  const auto registered = backend.registered();
  REQUIRE(registered.size() == 3);
  CHECK(registered[0].base == region.base);
  CHECK(registered[0].length == 16 * kPage);
  CHECK(registered[1].base == region.base + 20 * kPage);
  CHECK(registered[1].length == 20 * kPage);
  CHECK(registered[2].base == region.base + 41 * kPage);
  CHECK(registered[2].length == 23 * kPage);
  CHECK(look_up(domain, region, 0, 16) == RDM_OK);
  CHECK(look_up(domain, region, 20, 20) == RDM_OK);
  CHECK(look_up(domain, region, 63) == RDM_OK);
  for (size_t page = 16; page < 20; ++page) CHECK(look_up(domain, region, page) == RDM_NOT_OWNED);
  CHECK(look_up(domain, region, 40) == RDM_NOT_OWNED);
  CHECK(look_up(domain, region, 15, 2) == RDM_NOT_OWNED);
  CHECK(look_up(domain, region, 0, 64) == RDM_NOT_OWNED);
  check_closes_clean(domain);
  CHECK(fake::violations().empty());
}

TEST_CASE_METHOD(Fixture,
                 "a hole that comes after the registration is nobody's, and the key stays") {
  backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  const Region& region = source.acquire(2048 * kPage);
  Domain* domain = opened();
  REQUIRE(retire(region, 100, 50));
  CHECK(backend.registered().size() == 1);
  CHECK(look_up(domain, region, 99) == RDM_OK);
  CHECK(look_up(domain, region, 150, 2048 - 150) == RDM_OK);
  for (const size_t page : {100, 125, 149}) CHECK(look_up(domain, region, page) == RDM_NOT_OWNED);
  CHECK(look_up(domain, region, 99, 2) == RDM_NOT_OWNED);
  CHECK(look_up(domain, region, 149, 2) == RDM_NOT_OWNED);
  CHECK(look_up(domain, region, 0, 2048) == RDM_NOT_OWNED);
  CHECK(is_valid());
}

TEST_CASE_METHOD(Fixture, "no range that reaches into a hole is anyone's, wherever it begins") {
  backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  constexpr size_t kMiB = size_t{1} << 20;
  const size_t pages = 16 * kMiB / kPage;
  const Region& region = source.acquire(16 * kMiB);
  Domain* domain = opened();
  const size_t hole = 9 * kMiB / kPage;
  REQUIRE(retire(region, hole, 1));
  for (size_t bytes = kPage; bytes <= 16 * kMiB; bytes *= 2) {
    const size_t length = bytes / kPage;
    for (size_t page = 0; page + length <= pages; page += kMiB / 2 / kPage) {
      const bool has_hole = page <= hole && hole < page + length;
      REQUIRE(look_up(domain, region, page, length) == (has_hole ? RDM_NOT_OWNED : RDM_OK));
    }
    const size_t before = length > hole ? 0 : hole - length;
    CHECK(look_up(domain, region, before, hole - before) == RDM_OK);
    CHECK(look_up(domain, region, before, hole - before + 1) == RDM_NOT_OWNED);
    CHECK(look_up(domain, region, hole, length) == RDM_NOT_OWNED);
  }
  CHECK(is_valid());
}

TEST_CASE("lookups and registrations agree with a list of pages, whatever the device's limits") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    Fixture f;
    if (round % 2 == 0) f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
    if (round % 3 == 0) f.backend.limits.max_length = (3 + random() % 30) * kPage;
    constexpr size_t kPages = 300;
    const Region& region = f.source.acquire(kPages * kPage);
    std::vector<bool> retired(kPages);
    const auto make_holes = [&](int count) {
      for (int i = 0; i < count; ++i) {
        const size_t page = random() % kPages;
        const size_t pages = 1 + random() % std::min<size_t>(kPages - page, 20);
        for (size_t at = page; at < page + pages; ++at) {
          if (retired[at]) continue;
          REQUIRE(f.retire(region, at, 1));
          retired[at] = true;
        }
      }
    };
    make_holes(static_cast<int>(random() % 6));
    Domain* domain = f.opened();
    size_t pages = 0;
    for (const auto& registered : f.backend.registered()) pages += registered.length / kPage;
    CHECK(pages == kPages - region.retired() / kPage);
    make_holes(static_cast<int>(random() % 4));
    for (size_t page = 0; page < kPages; ++page) {
      REQUIRE(f.look_up(domain, region, page) == (retired[page] ? RDM_NOT_OWNED : RDM_OK));
      const size_t count = 1 + random() % std::min<size_t>(kPages - page, 40);
      bool any = false;
      for (size_t at = page; at < page + count; ++at) any = any || retired[at];
      const int status = f.look_up(domain, region, page, count);
      if (any) REQUIRE(status == RDM_NOT_OWNED);
      if (!any) REQUIRE((status == RDM_OK || status == RDM_NOT_REGISTERED));
    }
    CHECK(f.is_valid());
    CHECK(f.registry->close(domain) == RDM_OK);
    CHECK(f.backend.registered().empty());
    CHECK(f.backend.violations().empty());
  }
}

TEST_CASE_METHOD(Fixture, "holes that appear during the registration leave no page without a key") {
  const size_t kPages = 1024;
  const Region& region = source.acquire(kPages * kPage);
  REQUIRE(retire(region, 8, 1));
  // Each registration of a piece finds another hole behind it.
  struct Context {
    Fixture* fixture;
    const Region* region;
    size_t next;
  } context{this, &region, 16};
  backend.on_register_context = &context;
  backend.on_register = [](void* untyped) {
    auto* const here = static_cast<Context*>(untyped);
    if (here->next >= kPages) return;
    REQUIRE(here->fixture->retire(*here->region, here->next, 1));
    here->next += 8;
  };
  Domain* domain = opened();
  REQUIRE(context.next == kPages);
  for (size_t page = 0; page < kPages; ++page) {
    const bool is_hole = page % 8 == 0 && page != 0;
    REQUIRE(look_up(domain, region, page) == (is_hole ? RDM_NOT_OWNED : RDM_OK));
  }
  CHECK(is_valid());
  check_closes_clean(domain);
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture,
                 "a hole that is mended during the registration keeps no buffer from a key") {
  const Region& region = source.acquire(64 * kPage);
  source.change(region, 16 * kPage, kPage, true);
  source.change(region, 40 * kPage, 2 * kPage, true);
  struct Context {
    Fixture* fixture;
    const Region* region;
  } context{this, &region};
  backend.on_register_context = &context;
  backend.on_register = [](void* untyped) {
    const auto* const here = static_cast<Context*>(untyped);
    here->fixture->source.change(*here->region, 16 * kPage, 26 * kPage, false);
  };
  Domain* domain = opened();
  backend.on_register = nullptr;
  for (size_t page = 0; page < 64; ++page) {
    for (size_t count = 1; page + count <= 64; ++count) {
      rdm_mr mr{};
      CAPTURE(page, count);
      REQUIRE(Domain::get(domain, fake::at(region, page * kPage), count * kPage, &mr) == RDM_OK);
      REQUIRE(backend.covers(mr, fake::at(region, page * kPage), count * kPage));
      REQUIRE(Domain::put(domain, &mr) == RDM_OK);
    }
  }
  CHECK(is_valid());
}

TEST_CASE_METHOD(Fixture,
                 "pages that were shut when their region was registered have a key later") {
  constexpr size_t kPages = 8;
  for (size_t from = 0; from < kPages; ++from) {
    for (size_t count = 1; from + count <= kPages; ++count) {
      CAPTURE(from, count);
      Fixture f;
      const Region& region = f.source.acquire(kPages * kPage);
      f.source.change(region, from * kPage, count * kPage, true);
      Domain* domain = f.opened();
      f.source.change(region, from * kPage, count * kPage, false);
      for (size_t page = 0; page < kPages; ++page) {
        void* const address = fake::at(region, page * kPage);
        rdm_mr mr{};
        REQUIRE(Domain::get(domain, address, (kPages - page) * kPage, &mr) == RDM_OK);
        REQUIRE(f.backend.covers(mr, address, (kPages - page) * kPage));
        REQUIRE(Domain::put(domain, &mr) == RDM_OK);
      }
      CHECK(f.is_valid());
      CHECK(f.registry->close(domain) == RDM_OK);
      CHECK(f.backend.registered().empty());
    }
  }
}

TEST_CASE_METHOD(Fixture,
                 "a region without pages is deregistered, in pieces or whole, and forgotten") {
  backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  if (GENERATE(false, true)) backend.limits.max_length = 10 * kPage;
  const Region& region = source.acquire(64 * kPage);
  const Region& other = source.acquire(64 * kPage);
  Domain* domain = opened();
  const size_t before = backend.registered_bytes();
  CHECK(retire(region, 0, 32));
  CHECK(backend.registered_bytes() == before);
  CHECK(retire(region, 32, 32));  // nobody keeps any of it
  CHECK(registry->has_let_go(region));
  CHECK(backend.registered_bytes() == 64 * kPage);
  CHECK(look_up(domain, region, 0) == RDM_NOT_OWNED);
  CHECK(look_up(domain, other, 0) == RDM_OK);
  RegistrationCounters sum;
  registry->add_to(&sum);
  CHECK(sum.registered_bytes == 64 * kPage);
  CHECK(is_valid());
  CHECK(backend.violations().empty());
}

TEST_CASE_METHOD(Fixture,
                 "for a backend that does not run inside malloc the registrar deregisters") {
  const Region& region = source.acquire(64 * kPage);
  Domain* domain = opened();
  REQUIRE(look_up(domain, region, 0) == RDM_OK);
  (void)retire(region, 0, 64);  // the registrar may already have done it
  CHECK(comes([&] { return registry->has_let_go(region); }));
  CHECK(backend.registered().empty());
  CHECK(is_valid());
}

TEST_CASE_METHOD(Fixture,
                 "what a backend puts off is asked for again when the next region is ready") {
  backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  if (GENERATE(false, true)) backend.limits.max_length = 10 * kPage;
  const Region& region = source.acquire(64 * kPage);
  Domain* domain = opened();
  const size_t before = backend.registered_bytes();
  REQUIRE(before == 64 * kPage);
  backend.deregister_status = RDM_BACKEND_LATER;
  CHECK_FALSE(retire(region, 0, 64));
  CHECK_FALSE(registry->has_let_go(region));
  CHECK(backend.registered_bytes() == before);
  (void)source.acquire(kPage);  // later still
  CHECK_FALSE(registry->has_let_go(region));
  CHECK(look_up(domain, region, 0) == RDM_NOT_OWNED);
  backend.deregister_status = RDM_OK;
  (void)source.acquire(kPage);
  CHECK(registry->has_let_go(region));
  CHECK(backend.registered_bytes() == 2 * kPage);
  check_closes_clean(domain);
}

TEST_CASE_METHOD(Fixture, "a domain that opens later takes nothing of regions without pages") {
  backend.limits.abilities = GENERATE(0U, unsigned{RDM_BACKEND_IN_MALLOC});
  const Region& region = source.acquire(64 * kPage);
  const Region& other = source.acquire(kPage);
  CHECK(retire(region, 0, 64));
  Domain* domain = opened();
  CHECK(backend.registered_bytes() == kPage);
  CHECK(look_up(domain, other, 0) == RDM_OK);
  CHECK(look_up(domain, region, 5) == RDM_NOT_OWNED);
  CHECK(is_valid());
}

TEST_CASE_METHOD(Fixture, "a region's pages come before a device registers it") {
  backend.limits.abilities = GENERATE(0U, unsigned{RDM_BACKEND_IN_MALLOC});
  Domain* domain = opened();
  const Region& region = source.acquire(64 * kPage);
  REQUIRE(look_up(domain, region, 0) == RDM_OK);
  CHECK(region.populated);
  CHECK(fake::range_of(reinterpret_cast<void*>(region.base)).populated);
}

}  // namespace rdmalloc
