// What a domain does about memory that it could not register: when it retries, and what it gives up
// for it. Over a fake backend, regions added by hand, and a clock that the tests advance; the tests
// call the registrar's rounds themselves, unless its thread is being tested.
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "allocator/last_error.h"
#include "tests/support/comes.h"
#include "tests/support/registry_fixture.h"
#include "tests/support/wake_ups.h"

namespace rdmalloc {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kHour = 3'600'000 * kMs;

struct Fixture : fake::WatchedRegistryFixture {
  Domain* domain = nullptr;
  // The program's own memory; never read or written.
  char* const memory = reinterpret_cast<char*>(uintptr_t{0x5a5a} << 28);

  Fixture() { backend.limits.charges = RDM_CHARGES_PROCESS; }

  // Without the registrar's thread.
  void open() {
    domain = opened();
    registry->stop();
  }
  void pass(uint64_t ns) { source.now += ns; }
  uint64_t round() { return registry->rounds().work(); }

  int lookup(const Region& region) const {
    rdm_mr mr{};
    return domain->lookup(reinterpret_cast<void*>(region.base), 1, &mr);
  }
  rdm_mr got(size_t offset, size_t length) {
    rdm_mr mr{};
    REQUIRE(Domain::get(domain, memory + offset, length, &mr) == RDM_OK);
    return mr;
  }
  int get(size_t offset, size_t length) {
    rdm_mr mr{};
    return Domain::get(domain, memory + offset, length, &mr);
  }
  int get(const Region& region) const {
    rdm_mr mr{};
    return Domain::get(domain, reinterpret_cast<void*>(region.base), 1, &mr);
  }
  void put(const rdm_mr& mr) const { REQUIRE(Domain::put(domain, &mr) == RDM_OK); }
  // Registers this many non-adjacent pieces of a MiB and leaves them idle.
  void leave_idle(size_t count) {
    for (size_t i = 0; i < count; ++i) put(got(2 * i * kMiB, kMiB));
  }
  size_t foreign() const {
    size_t count = 0;
    for (const fake::Backend::Registered& one : backend.registered()) count += one.foreign ? 1 : 0;
    return count;
  }
  void fail(int status) {
    backend.fail_status = status;
    backend.fail_from = status == RDM_OK ? 0 : 1;
  }
};

// Runs until nothing is left to do: how long the registrar slept before each try.
std::vector<uint64_t> rounds_until_never(Fixture& f) {
  std::vector<uint64_t> waits;
  for (uint64_t wait = f.round(); wait != Registrar::kNever; wait = f.round()) {
    REQUIRE(waits.size() < 100);
    waits.push_back(wait);
    f.pass(wait);
  }
  return waits;
}

}  // namespace

TEST_CASE("a lookup does not try again what was refused") {
  Fixture f;
  const bool in_malloc = GENERATE(false, true);
  if (in_malloc) f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  f.open();
  const int status = GENERATE(as<int>{}, RDM_SYSTEM, RDM_UNSUPPORTED, RDM_BACKEND_NEVER);
  f.fail(status);
  const Region& region = f.source.acquire(kMiB);
  std::atomic<std::thread::id> caller{};
  f.backend.on_register_context = &caller;
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  // Only the thread in malloc may have been refused, so another thread tries too.
  CHECK(f.backend.calls() == (in_malloc ? 2 : 1));
  f.backend.on_register = [](void* by) {
    *static_cast<std::atomic<std::thread::id>*>(by) = std::this_thread::get_id();
  };
  for (int i = 0; i < 20; ++i) {
    f.pass(kHour);
    CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  }
  f.registry->stop();
  CHECK(caller.load() != std::this_thread::get_id());
}

TEST_CASE("what failed in passing is tried again after times that grow, and not for ever") {
  Fixture f;
  f.open();
  f.fail(RDM_SYSTEM);
  f.source.acquire(kMiB);
  const std::vector<uint64_t> waits = rounds_until_never(f);
  REQUIRE(waits.size() >= 5);
  CHECK(f.backend.calls() == waits.size() + 1);
  for (size_t i = 1; i < waits.size(); ++i) CHECK(waits[i] == 2 * waits[i - 1]);
  CHECK(waits.back() >= 30'000 * kMs);
  f.pass(kHour);
  CHECK(f.round() == Registrar::kNever);
  CHECK(f.backend.calls() == waits.size() + 1);
}

TEST_CASE("what failed in passing is registered by the next try, and found then") {
  Fixture f;
  f.open();
  f.fail(RDM_SYSTEM);
  const Region& region = f.source.acquire(kMiB);
  const uint64_t wait = f.round();
  REQUIRE(wait != Registrar::kNever);
  f.fail(RDM_OK);
  CHECK(f.round() == wait);  // not earlier
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  f.pass(wait);
  CHECK(f.round() == Registrar::kNever);
  CHECK(f.lookup(region) == RDM_OK);
}

TEST_CASE("what is refused for good is not tried again before something happens") {
  Fixture f;
  f.open();
  f.fail(GENERATE(as<int>{}, RDM_UNSUPPORTED, RDM_INVALID, RDM_BACKEND_NEVER));
  const Region& region = f.source.acquire(kMiB);
  CHECK(f.round() == Registrar::kNever);
  f.pass(kHour);
  CHECK(f.round() == Registrar::kNever);
  CHECK(f.backend.calls() == 1);
  fake::Backend other;
  Domain* const second = f.opened(other);
  f.registry->stop();
  f.fail(RDM_OK);
  CHECK(f.registry->close(second) == RDM_OK);
  (void)f.round();
  CHECK(f.lookup(region) == RDM_OK);
}

TEST_CASE("what one thread may not register inside malloc the next get registers") {
  Fixture f;
  f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  f.open();
  f.fail(GENERATE(as<int>{}, RDM_INVALID, RDM_SYSTEM));
  const Region& region = f.source.acquire(kMiB);
  f.fail(RDM_OK);
  CHECK(f.get(0, kMiB) == RDM_OK);
  CHECK(f.backend.registered().size() == 2);
  CHECK(f.lookup(region) == RDM_OK);
}

TEST_CASE("what waits for room is tried again when there is some, and at no time before") {
  Fixture f;
  f.source.limit = 4 * kMiB;
  f.open();
  const rdm_mr held = f.got(0, 3 * kMiB);
  const Region& region = f.source.acquire(2 * kMiB);
  for (int i = 0; i < 5; ++i) {
    CHECK(f.round() == Registrar::kNever);
    CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
    f.pass(kHour);
  }
  CHECK(f.backend.calls() == 1);
  f.put(held);
  { const Change change(f.memory, 1); }
  (void)f.round();  // deregisters it, ...
  (void)f.round();  // ... which wakes it again
  CHECK(f.lookup(region) == RDM_OK);
}

TEST_CASE("what the kernel has no room for is asked for again only when less is registered") {
  Fixture f;
  f.open();
  const rdm_mr held = f.got(0, kMiB);
  f.fail(RDM_OUT_OF_BUDGET);
  const Region& region = f.source.acquire(2 * kMiB);
  (void)f.round();
  const uint64_t calls = f.backend.calls();
  for (int i = 0; i < 5; ++i) {
    f.pass(kHour);
    CHECK(f.round() == Registrar::kNever);
    CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  }
  CHECK(f.backend.calls() == calls);
  f.fail(RDM_OK);
  f.put(held);
  { const Change change(f.memory, 1); }
  (void)f.round();
  (void)f.round();
  CHECK(f.lookup(region) == RDM_OK);
}

TEST_CASE("a region that another domain's closing makes room for is registered") {
  Fixture f;
  f.source.limit = 3 * kMiB;
  f.source.acquire(kMiB);
  fake::Backend other;
  other.limits.charges = RDM_CHARGES_PROCESS;
  Domain* const second = f.opened(other);
  f.open();
  const Region& region = f.source.acquire(kMiB + kMiB / 2);
  (void)f.round();
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  CHECK(f.registry->close(second) == RDM_OK);
  (void)f.round();
  CHECK(f.lookup(region) == RDM_OK);
}

TEST_CASE("a memlock limit raised while the program runs counts for what was refused") {
  Fixture f;
  f.source.limit = kMiB;
  const bool in_malloc = GENERATE(false, true);
  if (in_malloc) f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  f.open();
  const Region& region = f.source.acquire(2 * kMiB);
  (void)f.round();
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  CHECK(f.get(0, 2 * kMiB) == RDM_OUT_OF_BUDGET);
  f.source.limit = 8 * kMiB;
  SECTION("when it is looked up") {
    f.pass(1000 * kMs);
    (void)f.lookup(region);
    f.registry->stop();
    (void)f.round();
    CHECK(f.lookup(region) == RDM_OK);
  }
  SECTION("and for foreign memory at once") {
    CHECK(f.get(0, 2 * kMiB) == RDM_OK);
    (void)f.round();
    CHECK(f.lookup(region) == RDM_OK);
  }
}

TEST_CASE("regions leave as much of the memlock limit free as is needed by others") {
  Fixture f;
  f.source.limit = 8 * kMiB;
  f.domain = f.opened(RDM_DOMAIN_WHEN_ASKED);
  f.registry->stop();
  f.domain->parts().device.leave_free(4 * kMiB);
  const Region& fits = f.source.acquire(3 * kMiB);
  const Region& takes_what_is_left = f.source.acquire(2 * kMiB);
  CHECK(f.lookup(fits) == RDM_OK);
  CHECK(f.lookup(takes_what_is_left) == RDM_NOT_REGISTERED);
  CHECK(f.get(0, 4 * kMiB) == RDM_OK);
  CHECK(f.backend.registered_bytes() == 7 * kMiB);
  f.domain = f.opened(RDM_DOMAIN_WHEN_ASKED);
  const Region& small = f.source.acquire(kMiB);
  CHECK(f.lookup(small) == RDM_OK);
  f.registry->stop();
}

TEST_CASE("a driver that asks to come later is not asked for ever") {
  Fixture f;
  f.open();
  f.fail(RDM_BACKEND_LATER);
  f.source.acquire(kMiB);
  const std::vector<uint64_t> waits = rounds_until_never(f);
  REQUIRE(waits.size() >= 10);
  CHECK(waits.front() <= 2 * kMs);
  CHECK(waits.back() >= 500 * kMs);
}

TEST_CASE("a lookup does not wait while a driver is tried again") {
  struct Slow {
    std::atomic<bool> is_in{false};
    std::atomic<bool> is_over{false};
    std::atomic<bool> may_go{false};
  } slow;
  Fixture f;
  f.open();
  f.fail(RDM_SYSTEM);
  const Region& region = f.source.acquire(kMiB);
  f.pass(f.round());
  f.backend.on_register_context = &slow;
  f.backend.on_register = [](void* context) {
    auto& one = *static_cast<Slow*>(context);
    one.is_in = true;
    for (int i = 0; i < 3000 && !one.may_go; ++i) usleep(1000);
    one.is_over = true;
  };
  std::thread registrar([&] { (void)f.round(); });
  while (!slow.is_in) std::this_thread::yield();
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  CHECK(!slow.is_over);
  slow.may_go = true;
  registrar.join();
}

TEST_CASE("the registrar tries again what failed inside malloc, once a lookup has asked for it") {
  Fixture f;
  f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  f.open();
  f.fail(RDM_SYSTEM);
  const Region& region = f.source.acquire(kMiB);
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  f.fail(RDM_OK);
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  f.pass(1000 * kMs);
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  for (int i = 0; i < 5000 && f.lookup(region) != RDM_OK; ++i) usleep(1000);
  CHECK(f.lookup(region) == RDM_OK);
}

TEST_CASE("an idle process whose domain cannot register everything leaves the driver alone") {
  Fixture f;
  f.source.limit = 3 * kMiB;
  f.domain = f.opened(f.backend);
  f.leave_idle(2);
  const Region& region = f.source.acquire(8 * kMiB);
  const Region& refused = f.source.acquire(kMiB);
  f.fail(RDM_UNSUPPORTED);
  for (int i = 0; i < 5000 && f.lookup(refused) == RDM_OK; ++i) usleep(1000);
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  usleep(100'000);
  const uint64_t calls = f.backend.calls();
  const size_t foreign = f.foreign();
  usleep(2'300'000);
  CHECK(f.backend.calls() == calls);
  CHECK(f.foreign() == foreign);
}

TEST_CASE("the registrar of an idle process does not wake up, whoever opened the domain") {
  Fixture f;
  f.source.limit = kMiB;
  if (GENERATE(true, false)) {
    f.domain = f.opened(f.backend);
  } else {
    std::thread([&] { f.domain = f.opened(f.backend); }).join();
  }
  f.source.acquire(2 * kMiB);
  constexpr const char* kName = "rdmalloc-reg";
  REQUIRE(test::comes([] { return test::wake_ups(kName).count != 0; }));
  usleep(200'000);
  const test::WakeUps before = test::wake_ups(kName);
  usleep(2'300'000);
  CHECK(test::wake_ups(kName) == before);
}

TEST_CASE("a registrar without work sleeps until it is poked") {
  std::atomic<int> rounds{0};
  Registrar registrar(
      [](void* context) {
        ++*static_cast<std::atomic<int>*>(context);
        return Registrar::kNever;
      },
      &rounds);
  REQUIRE(registrar.start());
  usleep(1'300'000);
  CHECK(rounds == 1);
  registrar.poke();
  for (int i = 0; i < 5000 && rounds < 2; ++i) usleep(1000);
  CHECK(rounds == 2);
  registrar.stop();
}

TEST_CASE("a region that cannot fit takes nothing from foreign memory") {
  Fixture f;
  f.source.limit = 4 * kMiB;
  f.open();
  f.leave_idle(3);
  const Region& region = f.source.acquire(8 * kMiB);
  for (int i = 0; i < 3; ++i) {
    (void)f.round();
    CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
    f.pass(kHour);
  }
  CHECK(f.foreign() == 3);
  const uint64_t calls = f.backend.calls();
  f.leave_idle(3);
  CHECK(f.backend.calls() == calls);
}

TEST_CASE("a region takes no more from foreign memory than it lacks") {
  Fixture f;
  f.source.limit = 8 * kMiB;
  f.open();
  f.leave_idle(4);
  const Region& region = f.source.acquire(5 * kMiB);
  (void)f.round();
  CHECK(f.lookup(region) == RDM_OK);
  CHECK(f.foreign() == 3);
}

TEST_CASE("a get that cannot fit takes nothing from what is idle") {
  Fixture f;
  f.source.limit = 4 * kMiB;
  f.open();
  f.leave_idle(3);
  CHECK(f.get(64 * kMiB, 8 * kMiB) == RDM_OUT_OF_BUDGET);
  CHECK(std::string(last_error()).find("memlock") != std::string::npos);
  CHECK(f.foreign() == 3);
}

TEST_CASE("a lack of budget does not touch what is idle and not charged") {
  Fixture f;
  f.source.limit = 4 * kMiB;
  fake::Backend on_demand;
  Domain* const second = f.opened(on_demand);
  rdm_mr mr{};
  REQUIRE(Domain::get(second, f.memory, 16 * kMiB, &mr) == RDM_OK);
  REQUIRE(Domain::put(second, &mr) == RDM_OK);
  f.open();
  const Region& region = f.source.acquire(8 * kMiB);
  (void)f.round();
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  CHECK(f.get(0, 8 * kMiB) == RDM_OUT_OF_BUDGET);
  CHECK(on_demand.registered_bytes() == 16 * kMiB + 8 * kMiB);
}

TEST_CASE("a region for which the device had no memory region left is registered once it has one") {
  Fixture f;
  const bool in_malloc = GENERATE(false, true);
  if (in_malloc) f.backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  f.backend.limits.charges = GENERATE(as<int>{}, RDM_CHARGES_PROCESS, RDM_CHARGES_NOTHING);
  f.backend.limits.max_count = 2;
  const bool is_early = GENERATE(true, false);
  const Region& first = f.source.acquire(kMiB);
  f.source.acquire(kMiB);
  const Region* last = is_early ? &f.source.acquire(2 * kMiB) : nullptr;
  f.open();  // although it cannot register all of them
  if (!is_early) last = &f.source.acquire(2 * kMiB);
  (void)f.round();
  CHECK(f.lookup(*last) == RDM_NOT_REGISTERED);
  CHECK(f.get(*last) == RDM_NOT_REGISTERED);
  // Nothing is tried in vain meanwhile.
  const uint64_t calls = f.backend.calls();
  for (int i = 0; i < 5; ++i) {
    CHECK(f.round() == Registrar::kNever);
    CHECK(f.lookup(*last) == RDM_NOT_REGISTERED);
    f.pass(kHour);
  }
  CHECK(f.backend.calls() == calls);
  (void)f.source.retire(first, 0, first.length);
  (void)f.round();
  (void)f.round();
  CHECK(f.lookup(*last) == RDM_OK);
  CHECK(f.is_valid());
  CHECK(f.backend.violations().empty());
}

TEST_CASE("a region that is registered in part gets the rest as memory regions are given back") {
  Fixture f;
  f.backend.limits.max_length = kMiB;
  f.backend.limits.max_count = 4;
  const Region& first = f.source.acquire(2 * kMiB);
  f.open();
  const Region& region = f.source.acquire(5 * kMiB);
  (void)f.round();
  const auto found = [&] {
    size_t count = 0;
    for (size_t at = 0; at < 5; ++at) {
      rdm_mr mr{};
      if (f.domain->lookup(reinterpret_cast<void*>(region.base + at * kMiB), kMiB, &mr) != RDM_OK)
        continue;
      CHECK(f.backend.covers(mr, reinterpret_cast<void*>(region.base + at * kMiB), kMiB));
      ++count;
    }
    return count;
  };
  CHECK(found() == 2);
  // Nothing is tried in vain meanwhile.
  const uint64_t calls = f.backend.calls();
  for (int i = 0; i < 5; ++i) {
    CHECK(f.round() == Registrar::kNever);
    CHECK(found() == 2);
    f.pass(kHour);
  }
  CHECK(f.backend.calls() == calls);
  SECTION("all that the device has") {
    (void)f.source.retire(first, 0, first.length);
    (void)f.round();
    (void)f.round();
    CHECK(found() == 4);
    CHECK(f.round() == Registrar::kNever);
  }
  SECTION("and may be read while that is registered") {
    struct Reader {
      Fixture* f;
      const Region* region;
      int status = RDM_SYSTEM;
    } reader{&f, &region};
    f.backend.on_register_context = &reader;
    f.backend.on_register = [](void* context) {
      auto* r = static_cast<Reader*>(context);
      r->status = r->f->lookup(*r->region);
    };
    (void)f.source.retire(first, 0, first.length);
    (void)f.round();
    (void)f.round();
    CHECK(reader.status == RDM_OK);
  }
  SECTION("and what fails for another reason is tried once") {
    f.fail(RDM_SYSTEM);
    (void)f.source.retire(first, 0, first.length);
    (void)f.round();
    (void)f.round();
    const uint64_t tried = f.backend.calls();
    for (int i = 0; i < 5; ++i) CHECK(f.round() == Registrar::kNever);
    CHECK(f.backend.calls() == tried);
    CHECK(found() == 2);
  }
  SECTION("and nothing of it stays when it has lost its pages") {
    (void)f.source.retire(region, 0, region.length);
    (void)f.round();
    CHECK(f.backend.registered().size() == 2);
  }
  CHECK(f.is_valid());
  CHECK(f.registry->close(f.domain) == RDM_OK);
  CHECK(f.backend.registered().empty());
  CHECK(f.backend.violations().empty());
}

TEST_CASE("a region of more pieces than the device can have takes no memory region from others") {
  Fixture f;
  f.backend.limits.max_length = kMiB;
  f.backend.limits.max_count = 8;
  f.open();
  f.leave_idle(3);
  const rdm_mr held = f.got(16 * kMiB, kMiB);
  const Region& region = f.source.acquire(8 * kMiB);
  (void)f.round();
  (void)f.round();
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  CHECK(f.foreign() == 4);
  SECTION("but as many as it needs, when that is enough") {
    const Region& fitting = f.source.acquire(6 * kMiB);
    (void)f.round();
    CHECK(f.lookup(fitting) == RDM_OK);
    CHECK(f.foreign() == 2);
  }
  f.put(held);
}

TEST_CASE("what became idle since makes room for what was refused, when that is looked up") {
  Fixture f;
  f.source.limit = 4 * kMiB;
  f.open();
  const rdm_mr held = f.got(0, 3 * kMiB);
  const Region& region = f.source.acquire(2 * kMiB);
  (void)f.round();
  CHECK(f.lookup(region) == RDM_NOT_REGISTERED);
  f.put(held);
  f.pass(1000 * kMs);
  (void)f.lookup(region);
  f.registry->stop();
  (void)f.round();
  CHECK(f.lookup(region) == RDM_OK);
}

}  // namespace rdmalloc
