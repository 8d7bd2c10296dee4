// rdm_get and rdm_put of a domain: what belongs to the window, what to the foreign cache, and how
// the two interact. Over a fake backend and regions added by hand.
#include <unistd.h>

#include <chrono>
#include <string>

#include "allocator/last_error.h"
#include "tests/support/registry_fixture.h"

namespace rdmalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
const size_t kPage = os::page_size();

struct Fixture : fake::WatchedRegistryFixture {
  Domain* domain = nullptr;
  // The program's own memory; never read or written.
  char* const memory = reinterpret_cast<char*>(uintptr_t{0x5a5a} << 28);
  rdm_domain_options options{};

  Fixture() { backend.limits.abilities = RDM_BACKEND_IN_MALLOC; }

  Domain* opened() { return domain = RegistryFixture::opened(backend, options); }
  int get(const void* address, size_t length, rdm_mr* mr) {
    new_last_error()[0] = '\0';
    return Domain::get(domain, address, length, mr);
  }
  rdm_mr got(const void* address, size_t length) {
    rdm_mr mr{};
    REQUIRE(get(address, length, &mr) == RDM_OK);
    REQUIRE(backend.covers(mr, address, length));
    return mr;
  }
  int put(const rdm_mr& mr) {
    new_last_error()[0] = '\0';
    return Domain::put(domain, &mr);
  }
  void use(const void* address, size_t length) { REQUIRE(put(got(address, length)) == RDM_OK); }

  void check_closes_clean() {
    RegistryFixture::check_closes_clean(domain);
    CHECK(counters().foreign_regions == 0);
    CHECK(counters().registered_pinned_bytes == 0);
  }
};

char* at(const Region& region, size_t offset = 0) {
  return reinterpret_cast<char*>(region.base + offset);
}

bool says(const char* part) { return std::string(last_error()).find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a get of pinned memory of the window is a lookup, and its put does nothing") {
  Fixture f;
  const Region& region = f.source.acquire(2 * kMiB);
  f.opened();
  const rdm_mr mr = f.got(at(region, 5), 100);
  CHECK(mr.base == at(region));
  CHECK(mr.length == region.length);
  CHECK(f.counters().foreign_misses == 0);
  CHECK(f.counters().lookups >= 1);
  for (int i = 0; i < 3; ++i) CHECK(f.put(mr) == RDM_OK);
  CHECK(f.got(at(region), 1).lkey == mr.lkey);
  f.check_closes_clean();
}

TEST_CASE("a domain of named memory registers heap memory only while it is held by a get") {
  Fixture f;
  const bool is_named = GENERATE(true, false);
  const bool in_malloc = GENERATE(true, false);
  if (!in_malloc) f.backend.limits.abilities = 0;
  const Region& heap = f.source.acquire(2 * kMiB);
  const Region& exposed = f.source.acquire(2 * kMiB, RegionKind::kPinned, true);
  f.options.flags = is_named ? RDM_DOMAIN_NAMED_ONLY : 0;
  f.opened();
  f.registry->stop();
  const Region& later = f.source.acquire(2 * kMiB);
  (void)f.registry->rounds().work();
  rdm_mr mr{};
  CHECK(f.domain->lookup(at(exposed, 5), 100, &mr) == RDM_OK);
  for (const Region* region : {&heap, &later}) {
    new_last_error()[0] = '\0';
    CHECK((f.domain->lookup(at(*region, 5), 100, &mr) == RDM_NOT_REGISTERED) == is_named);
    CHECK(says("RDM_DOMAIN_NAMED_ONLY") == is_named);
  }
  CHECK(f.backend.registered().size() == (is_named ? 1 : 3));
  if (!is_named) return;
  const rdm_mr first = f.got(at(heap, 5), 100);
  const rdm_mr same = f.got(at(heap, 50), 100);
  CHECK(first.base == at(heap));
  CHECK(first.length == kPage);
  CHECK(same.lkey == first.lkey);
  CHECK(f.backend.registered_bytes() == exposed.length + kPage);
  CHECK(f.domain->lookup(at(heap, 5), 100, &mr) == RDM_NOT_REGISTERED);
  CHECK(f.put(first) == RDM_OK);
  CHECK(f.backend.registered_bytes() == exposed.length + kPage);
  CHECK(f.put(same) == RDM_OK);
  CHECK(f.put(same) == RDM_INVALID);
  CHECK(f.backend.registered_bytes() == exposed.length);
  // Memory outside the heap is kept as in any other domain.
  f.use(f.memory, kPage);
  CHECK(f.backend.registered_bytes() == exposed.length + kPage);
  f.check_closes_clean();
}

TEST_CASE("what the window holds unpinned is registered as foreign memory is") {
  for (const RegionKind kind : {RegionKind::kOverflow, RegionKind::kSparse}) {
    Fixture f;
    const Region& region = f.source.acquire(2 * kMiB, kind);
    f.opened();
    CHECK(f.backend.registered().empty());
    const rdm_mr mr = f.got(at(region, kPage + 5), 100);
    CHECK(mr.base == at(region, kPage));
    CHECK(mr.length == kPage);
    CHECK(f.backend.registered().size() == 1);
    CHECK(f.backend.registered()[0].foreign);
    CHECK(f.put(mr) == RDM_OK);
    CHECK(f.got(at(region, kPage), kPage).lkey == mr.lkey);
    CHECK(f.registry->close(f.domain) == RDM_BUSY);
    CHECK(f.put(mr) == RDM_OK);
    CHECK(f.put(mr) == RDM_INVALID);
    // What the heap discards is not used again.
    f.registry->on_discard(at(region), region.length);
    CHECK(f.backend.registered().empty());
    f.check_closes_clean();
  }
}

TEST_CASE("a range half in the window is refused at either edge, and nothing stays referenced") {
  Fixture f;
  const Region& region = f.source.acquire(2 * kMiB);
  f.opened();
  const auto begin = reinterpret_cast<char*>(f.source.window().base());
  char* const end = begin + f.source.window().size();
  rdm_mr mr{};
  CHECK(f.get(begin - kPage, 2 * kPage, &mr) == RDM_INVALID);
  CHECK(says("window"));
  CHECK(f.get(end - kPage, 2 * kPage, &mr) == RDM_INVALID);
  CHECK(says("window"));
  CHECK(f.get(begin - kPage, SIZE_MAX, &mr) == RDM_INVALID);
  CHECK(f.get(end - 1, SIZE_MAX, &mr) == RDM_INVALID);
  // From a registered buffer, with a length that reaches into the window.
  f.use(begin - kPage, kPage);
  CHECK(f.get(begin - kPage, kPage + 1, &mr) == RDM_INVALID);
  CHECK(f.get(begin - kPage, SIZE_MAX, &mr) == RDM_INVALID);
  f.use(end, kPage);
  CHECK(f.get(end - 1, kPage, &mr) == RDM_INVALID);
  // Inside the window, but not within one region.
  CHECK(f.get(at(region), region.length + kPage, &mr) != RDM_OK);
  CHECK(says("region"));
  CHECK(f.get(end - kPage, kPage, &mr) == RDM_NOT_OWNED);
  f.check_closes_clean();
}

TEST_CASE("null pointers and no bytes are refused with a sentence") {
  Fixture f;
  const Region& region = f.source.acquire(2 * kMiB);
  f.opened();
  rdm_mr mr{};
  CHECK(Domain::get(nullptr, f.memory, 1, &mr) == RDM_INVALID);
  CHECK(Domain::get(f.domain, f.memory, 1, nullptr) == RDM_INVALID);
  CHECK(Domain::put(nullptr, &mr) == RDM_INVALID);
  CHECK(Domain::put(f.domain, nullptr) == RDM_INVALID);
  CHECK(f.put(rdm_mr{}) == RDM_INVALID);
  for (const char* address : {static_cast<const char*>(f.memory), static_cast<const char*>(nullptr),
                              static_cast<const char*>(at(region))}) {
    CHECK(f.get(address, 0, &mr) == RDM_INVALID);
    CHECK(last_error()[0] != '\0');
  }
  f.check_closes_clean();
}

TEST_CASE("the statistics tell what happened to foreign memory") {
  Fixture f;
  f.options.foreign_count = 2;
  f.opened();
  const RegistrationCounters before = f.counters();
  f.use(f.memory, 4 * kPage);
  f.use(f.memory + kPage, kPage);
  f.use(f.memory, 1);
  CHECK(f.counters().foreign_misses - before.foreign_misses == 1);
  CHECK(f.counters().foreign_hits - before.foreign_hits == 2);
  CHECK(f.counters().foreign_regions == 1);
  CHECK(f.counters().foreign_bytes == 4 * kPage);
  f.use(f.memory + 8 * kPage, kPage);
  f.use(f.memory + 16 * kPage, kPage);
  CHECK(f.counters().foreign_evictions == 1);
  CHECK(f.counters().foreign_regions == 2);
  CHECK(f.counters().foreign_bytes == 2 * kPage);
  { const Change change(f.memory + 8 * kPage, kPage); }
  CHECK(f.counters().foreign_invalidations == 1);
  CHECK(f.counters().foreign_regions == 1);
  CHECK(f.counters().registered_bytes == kPage);
  f.check_closes_clean();
}

TEST_CASE("the limits of a domain's options are kept") {
  Fixture f;
  rdm_mr mr{};
  SECTION("of bytes") {
    f.options.foreign_bytes = 4 * kPage;
    f.opened();
    const rdm_mr held = f.got(f.memory, 3 * kPage);
    CHECK(f.get(f.memory + 8 * kPage, 2 * kPage, &mr) == RDM_OUT_OF_BUDGET);
    CHECK(f.get(f.memory + 8 * kPage, 5 * kPage, &mr) == RDM_OUT_OF_BUDGET);
    CHECK(says("foreign_bytes"));
    f.use(f.memory + 8 * kPage, kPage);
    CHECK(f.put(held) == RDM_OK);
  }
  SECTION("of registrations") {
    f.options.foreign_count = 1;
    f.opened();
    const rdm_mr held = f.got(f.memory, kPage);
    CHECK(f.get(f.memory + 8 * kPage, kPage, &mr) == RDM_OUT_OF_BUDGET);
    CHECK(f.put(held) == RDM_OK);
    f.use(f.memory + 8 * kPage, kPage);
  }
  SECTION("of the device") {
    f.backend.limits.max_count = 2;
    const Region& region = f.source.acquire(kMiB);
    f.opened();
    f.use(f.memory, kPage);
    f.use(f.memory + 8 * kPage, kPage);
    CHECK(f.backend.registered().size() == 2);
    const rdm_mr held = f.got(f.memory, kPage);
    CHECK(f.get(f.memory + 8 * kPage, kPage, &mr) == RDM_OUT_OF_BUDGET);
    CHECK(last_error()[0] != '\0');
    CHECK(f.put(held) == RDM_OK);
    CHECK(f.got(at(region), 1).base == at(region));
  }
  f.check_closes_clean();
}

TEST_CASE("foreign memory leaves a part of the device's memory regions to the heap") {
  Fixture f;
  f.backend.limits.max_count = 8;
  f.opened();
  for (size_t i = 0; i < 20; ++i) f.use(f.memory + 2 * i * kPage, kPage);
  CHECK(f.backend.registered().size() == 6);
  rdm_mr mr{};
  for (int i = 0; i < 2; ++i) {
    const Region& region = f.source.acquire(kMiB);
    CHECK(f.domain->lookup(at(region), 1, &mr) == RDM_OK);
  }
  SECTION("and makes way for more of it") {
    const rdm_mr held = f.got(f.memory, kPage);
    for (int i = 0; i < 5; ++i) {
      const Region& region = f.source.acquire(kMiB);
      CHECK(f.domain->lookup(at(region), 1, &mr) == RDM_OK);
    }
    const Region& region = f.source.acquire(kMiB);
    CHECK(f.domain->lookup(at(region), 1, &mr) == RDM_NOT_REGISTERED);
    CHECK(f.put(held) == RDM_OK);
    f.source.now += 150'000'000;
    (void)f.domain->lookup(at(region), 1, &mr);
    f.registry->stop();
    (void)f.registry->rounds().work();
    CHECK(f.domain->lookup(at(region), 1, &mr) == RDM_OK);
  }
  f.check_closes_clean();
}

TEST_CASE("what a thread may not deregister stays counted until another one does") {
  Fixture f;
  f.backend.limits.max_count = 8;
  f.opened();
  for (size_t i = 0; i < 20; ++i) {
    f.use(f.memory + 2 * i * kPage, kPage);
    f.backend.deregister_status = RDM_BACKEND_LATER;
    { const Change change(f.memory + 2 * i * kPage, kPage); }
    CHECK(f.is_valid());
    CHECK(f.counters().registered_bytes == kPage);
    f.backend.deregister_status = RDM_OK;
    f.use(f.memory + 100 * kPage, kPage);
    CHECK(f.counters().foreign_regions == 1);
    { const Change change(f.memory + 100 * kPage, kPage); }
  }
  f.check_closes_clean();
}

TEST_CASE("a thread that may not register is told so at once") {
  Fixture f;
  f.opened();
  f.backend.fail_status = RDM_BACKEND_LATER;
  f.backend.fail_from = 1;
  rdm_mr mr{};
  const auto started = std::chrono::steady_clock::now();
  CHECK(f.get(f.memory, kPage, &mr) == RDM_UNSUPPORTED);
  CHECK(says("thread"));
  CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(1));
  f.backend.fail_from = 0;
  f.check_closes_clean();
}

TEST_CASE("a domain that leaves nothing pinned registers foreign memory for each use") {
  Fixture f;
  f.options.flags = RDM_DOMAIN_LEAVE_NOTHING_PINNED;
  const Region& region = f.source.acquire(kMiB);
  f.opened();
  for (int i = 0; i < 3; ++i) {
    const rdm_mr mr = f.got(f.memory, kPage);
    CHECK(f.backend.registered().size() == 2);
    CHECK(f.put(mr) == RDM_OK);
    CHECK(f.backend.registered().size() == 1);
  }
  CHECK(f.counters().foreign_misses == 3);
  CHECK(f.got(at(region), 1).base == at(region));
  f.check_closes_clean();
}

TEST_CASE("a domain with foreign memory in use stays open, and says how many") {
  Fixture f;
  f.opened();
  const rdm_mr one = f.got(f.memory, kPage);
  const rdm_mr two = f.got(f.memory + 4 * kPage, kPage);
  CHECK(f.registry->close(f.domain) == RDM_BUSY);
  CHECK(says("2 registrations"));
  CHECK(f.domain->is_open());
  CHECK(f.put(one) == RDM_OK);
  CHECK(f.registry->close(f.domain) == RDM_BUSY);
  CHECK(says("1 registration"));
  f.use(f.memory + 8 * kPage, kPage);
  CHECK(f.put(two) == RDM_OK);
  f.check_closes_clean();
  rdm_mr mr{};
  CHECK(f.get(f.memory, kPage, &mr) == RDM_INVALID);
  CHECK(says("closed"));
  CHECK(f.put(one) == RDM_INVALID);
  CHECK(f.backend.closed() == 1);
}

TEST_CASE("idle foreign memory makes way for the heap when the memlock limit is reached") {
  Fixture f;
  f.source.limit = 4 * kMiB;
  f.backend.limits.charges = RDM_CHARGES_PROCESS;
  f.backend.limits.abilities = 0;
  f.opened();
  f.registry->stop();  // lookups do all the work
  f.use(f.memory, kMiB);
  f.use(f.memory + 2 * kMiB, 2 * kMiB);
  const rdm_mr held = f.got(f.memory + 8 * kMiB, kMiB);
  CHECK(f.counters().registered_pinned_bytes == 4 * kMiB);
  const Region& region = f.source.acquire(2 * kMiB);
  rdm_mr mr{};
  REQUIRE(f.domain->lookup(at(region), kPage, &mr) == RDM_OK);
  CHECK(f.backend.covers(mr, at(region), region.length));
  CHECK(f.backend.covers(held, held.base, held.length));
  CHECK(f.counters().registered_pinned_bytes <= 4 * kMiB);
  SECTION("but not what is in use") {
    const Region& more = f.source.acquire(2 * kMiB);
    CHECK(f.domain->lookup(at(more), kPage, &mr) == RDM_NOT_REGISTERED);
    CHECK(f.backend.covers(held, held.base, held.length));
  }
  SECTION("and a get that finds no room says so") {
    CHECK(f.get(f.memory + 16 * kMiB, 2 * kMiB, &mr) == RDM_OUT_OF_BUDGET);
    CHECK(says("memlock"));
  }
  CHECK(f.put(held) == RDM_OK);
  f.check_closes_clean();
}

TEST_CASE("idle foreign memory of one domain makes way for another's") {
  Fixture f;
  f.source.limit = 2 * kMiB;
  f.backend.limits.charges = RDM_CHARGES_USER;
  f.opened();
  f.use(f.memory, 2 * kMiB);
  fake::Backend second;
  second.limits = f.backend.limits;
  Domain* const other = f.RegistryFixture::opened(second, f.options);
  rdm_mr mr{};
  CHECK(Domain::get(other, f.memory + 4 * kMiB, kMiB, &mr) == RDM_OK);
  CHECK(f.backend.registered().empty());
  CHECK(Domain::put(other, &mr) == RDM_OK);
  CHECK(f.registry->close(other) == RDM_OK);
  f.check_closes_clean();
}

TEST_CASE(
    "what changed is deregistered by the registrar, where the backend may not run in malloc") {
  Fixture f;
  f.backend.limits.abilities = 0;
  f.opened();
  f.use(f.memory, kPage);
  { const Change change(f.memory, kPage); }
  for (int i = 0; i < 5000 && !f.backend.registered().empty(); ++i) usleep(1000);
  CHECK(f.backend.registered().empty());
  f.check_closes_clean();
}

TEST_CASE("a change is told to every domain") {
  Fixture f;
  f.opened();
  Domain* const first = f.domain;
  Domain* const second = f.opened();
  REQUIRE(first != second);
  for (Domain* domain : {first, second}) {
    f.domain = domain;
    f.use(f.memory, kPage);
  }
  CHECK(f.backend.registered().size() == 2);
  { const Change change(f.memory, 1); }
  CHECK(f.backend.registered().empty());
  CHECK(f.registry->close(first) == RDM_OK);
  f.check_closes_clean();
}

TEST_CASE("a child of fork has none of its parent's foreign memory, and may open a domain") {
  Fixture f;
  f.opened();
  const rdm_mr held = f.got(f.memory, kPage);
  const uint64_t calls = f.backend.calls();
  f.source.fork();
  rdm_mr mr{};
  CHECK(f.get(f.memory, kPage, &mr) == RDM_NOT_REGISTERED);
  CHECK(says("parent"));
  CHECK(f.put(held) == RDM_OK);
  CHECK(f.put(held) == RDM_OK);
  { const Change change(f.memory, kPage); }
  CHECK(f.counters().foreign_regions == 0);
  CHECK(f.registry->close(f.domain) == RDM_OK);
  CHECK(f.backend.calls() == calls);
  CHECK(f.backend.registered().size() == 1);  // the parent's
  CHECK(f.backend.closed_in_child() == 1);

  f.opened();
  f.use(f.memory + 8 * kPage, kPage);
  CHECK(f.is_valid());
  CHECK(f.registry->close(f.domain) == RDM_OK);
  CHECK(f.backend.registered().size() == 1);
}

TEST_CASE("what the backend does not let go of is told, and the next domain starts anew") {
  Fixture f;
  f.opened();
  f.use(f.memory, kPage);
  f.backend.deregister_status = RDM_SYSTEM;
  CHECK(f.registry->close(f.domain) == RDM_SYSTEM);
  f.backend.deregister_status = RDM_OK;
  // Every place for a domain is used again.
  for (size_t i = 0; i < Domains::kMost; ++i) {
    f.opened();
    f.use(f.memory, kPage);
    CHECK(f.is_valid());
    REQUIRE(f.registry->close(f.domain) == RDM_OK);
  }
}

TEST_CASE("unpinned memory of the window gets remote rights only where the heap is shared") {
  Fixture f;
  const bool is_shared = GENERATE(false, true);
  f.options.access = RDM_LOCAL_WRITE | RDM_REMOTE_WRITE | RDM_REMOTE_READ;
  f.options.flags = is_shared ? unsigned{RDM_DOMAIN_SHARE_HEAP} : 0U;
  const Region& region = f.source.acquire(kMiB, RegionKind::kOverflow);
  f.opened();
  f.use(at(region), kPage);
  REQUIRE(f.backend.registered().size() == 1);
  CHECK(f.backend.registered()[0].access ==
        (is_shared ? f.options.access : unsigned{RDM_LOCAL_WRITE}));
  f.check_closes_clean();
}

TEST_CASE("foreign memory gets all the rights of its domain") {
  Fixture f;
  f.options.access = RDM_LOCAL_WRITE | RDM_REMOTE_READ;
  const Region& region = f.source.acquire(kMiB);
  f.opened();
  f.use(f.memory, kPage);
  for (const auto& one : f.backend.registered()) {
    CHECK(one.access == (one.foreign ? f.options.access : unsigned{RDM_LOCAL_WRITE}));
    CHECK(one.foreign == (one.base != region.base));
  }
  f.check_closes_clean();
}

TEST_CASE(
    "what was got while its region was refused is given back after the region was registered") {
  Fixture f;
  f.backend.limits.abilities = 0;
  f.options.flags = RDM_DOMAIN_PARTIAL;
  const Region& region = f.source.acquire(64 * kPage);
  f.backend.fail_only = 1;
  f.opened();
  auto* const buffer = reinterpret_cast<char*>(region.base);
  const rdm_mr held = f.got(buffer, kPage);
  // The registrar tries again some time later: here, and not on the thread that a lookup wakes.
  rdm_mr found{};
  for (int i = 0; i < 10; ++i) {
    f.registry->stop();
    f.source.now += 1'000'000'000;
    (void)f.registry->rounds().work();
    if (f.domain->lookup(buffer, kPage, &found) == RDM_OK) break;
  }
  REQUIRE(f.backend.covers(found, buffer, 64 * kPage));
  REQUIRE(found.lkey != held.lkey);
  CHECK(f.put(held) == RDM_OK);
  CHECK(f.put(found) == RDM_OK);
  CHECK(f.registry->close(f.domain) == RDM_OK);
  CHECK(f.backend.registered().empty());
}

}  // namespace rdmalloc
