// Several devices register large regions at the same time, each in one thread of ours; small ones
// are not worth a thread.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/registry_fixture.h"

namespace rdmalloc {
namespace {

using fake::at;
using test::comes;
using Clock = std::chrono::steady_clock;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLarge = 64 * kMiB;
constexpr std::chrono::milliseconds kSlowness{600};  // of 3 GiB at 0.2 s per GiB

// Devices that take their time, and see who else is at it.
struct Fixture : fake::RegistryFixture {
  Fixture() {
    for (fake::Backend* device : {&backend, &other}) {
      device->on_register_context = this;
      device->on_register = [](void* context) { static_cast<Fixture*>(context)->on_register(); };
    }
  }
  ~Fixture() { registry->stop(); }

  void on_register() {
    const int now = ++inside;
    for (int known = most; known < now && !most.compare_exchange_weak(known, now);) continue;
    {
      const std::lock_guard hold(mutex);
      threads.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(slowness.load());
    --inside;
  }
  bool have_all(size_t bytes) const {
    return comes(
        [&] { return backend.registered_bytes() == bytes && other.registered_bytes() == bytes; });
  }
  // Regions that every device has to register, all at once.
  void acquire(size_t count, size_t length) {
    slowness = std::chrono::milliseconds{0};
    const size_t page = os::page_size();
    const Region& first = source.acquire(page);
    REQUIRE(have_all(page));
    REQUIRE_FALSE(first.is_empty());
    slowness = kSlowness;
    threads.clear();
    most = 0;
    begun = Clock::now();
    for (size_t i = 0; i < count; ++i) source.acquire(length);
    REQUIRE(have_all(page + count * length));
  }

  fake::Backend other;
  std::atomic<std::chrono::milliseconds> slowness{kSlowness};
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Clock::time_point begun;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "two devices register a large region in the time of one") {
  Domain* const one = opened(backend);
  Domain* const two = opened(other);
  acquire(1, kLarge);
  const auto took = Clock::now() - begun;
  CHECK(most == 2);
  CHECK(took < kSlowness * 3 / 2);
  CHECK(registry->close(two) == RDM_OK);
  check_closes_clean(one);
  CHECK(other.registered().empty());
}

TEST_CASE_METHOD(Fixture, "one device registers in one thread, however many regions") {
  opened(backend);
  Domain* const two = opened(other);
  REQUIRE(registry->close(two) == RDM_OK);
  slowness = std::chrono::milliseconds{1};
  for (int i = 0; i < 4; ++i) source.acquire(kLarge);
  REQUIRE(comes([&] { return backend.registered_bytes() == 4 * kLarge; }));
  CHECK(most == 1);
  CHECK(threads.size() == 1);
}

TEST_CASE_METHOD(Fixture, "small regions are registered without more threads") {
  opened(backend);
  opened(other);
  slowness = std::chrono::milliseconds{1};
  source.acquire(kMiB);
  REQUIRE(have_all(kMiB));
  CHECK(most == 1);
  CHECK(threads.size() == 1);
}

TEST_CASE_METHOD(Fixture, "a domain is closed while the devices of others are at work") {
  Domain* const one = opened(backend);
  Domain* const two = opened(other);
  fake::Backend another;
  for (int i = 0; i < 20; ++i) {
    slowness = std::chrono::milliseconds{5};
    source.acquire(kLarge);
    if (i % 2 == 0) continue;
    Domain* const third = opened(another, RDM_DOMAIN_PARTIAL);
    REQUIRE(registry->close(third) == RDM_OK);
  }
  REQUIRE(have_all(20 * kLarge));
  CHECK(registry->close(two) == RDM_OK);
  check_closes_clean(one);
  CHECK(another.registered().empty());
  CHECK(another.violations().empty());
}

// Replaying happens under the registry's lock: the third domain shows that it is held.
TEST_CASE_METHOD(Fixture, "no other thread waits while a domain is opened over a large heap") {
  slowness = std::chrono::milliseconds{0};
  const Region& first = source.acquire(kLarge);
  Domain* const one = opened(backend);
  std::atomic<bool> is_replaying{false};
  std::atomic<bool> may_end{false};
  struct Held {
    std::atomic<bool>* is_replaying;
    std::atomic<bool>* may_end;
  } held{&is_replaying, &may_end};
  other.on_register_context = &held;
  other.on_register = [](void* context) {
    auto* const its = static_cast<Held*>(context);
    if (its->is_replaying->exchange(true)) return;
    while (!*its->may_end) std::this_thread::yield();
  };
  std::thread opener([&] { (void)opened(other); });
  const bool has_begun = comes([&] { return is_replaying.load(); });
  rdm_mr mr{};
  const auto finds = [&](const Region& region, size_t length) {
    return one->lookup(at(region), length, &mr) == RDM_OK && backend.covers(mr, at(region), length);
  };
  bool did_all = finds(first, kLarge);
  const Region& small = source.acquire(kMiB);
  did_all = did_all && finds(small, kMiB);
  const Region& large = source.acquire(kLarge);
  did_all = did_all && finds(large, kMiB) && comes([&] { return finds(large, kLarge); });
  const uintptr_t base = small.base;
  (void)source.retire(small, 0, kMiB);
  registry->domains().on_change(first.base, first.base + 4096);
  const bool has_retired = comes([&] {
    const auto all = backend.registered();
    return std::none_of(all.begin(), all.end(), [&](const auto& it) { return it.base == base; });
  });
  rdm_domain_options options{};
  options.size = sizeof options;
  options.flags = RDM_DOMAIN_DO_NOT_WAIT;
  const rdm_backend operations = backend.ops();
  Domain* third = nullptr;
  const int status = registry->open(&operations, &backend, &options, &third);
  may_end = true;
  opener.join();
  CHECK(has_begun);
  CHECK(did_all);
  CHECK(has_retired);
  CHECK(status == RDM_BUSY);
}

// A ring lets one thread in at a time: whoever registers in it, or deregisters, waits for the rest.
TEST_CASE_METHOD(Fixture, "no malloc waits for a ring that registers a large heap") {
  struct Ring {
    std::mutex lock;
    std::atomic<int> calls{0};
    std::atomic<bool> may_end{false};
  } ring;
  fake::Backend device;
  device.limits.abilities = RDM_BACKEND_IN_MALLOC;
  device.on_register_context = &ring;
  device.on_register = [](void* context) {
    auto* const its = static_cast<Ring*>(context);
    const std::lock_guard hold(its->lock);
    if (++its->calls != 2) return;
    while (!its->may_end) std::this_thread::yield();
  };
  const Region& gone = source.acquire(kMiB);
  source.acquire(kLarge);
  Domain* domain = nullptr;
  std::thread opener([&] { domain = opened(device); });
  const bool has_begun = comes([&] { return ring.calls == 2; });
  std::atomic<const Region*> made{nullptr};
  std::thread maker([&] {
    const Region& region = source.acquire(kMiB);
    (void)source.retire(gone, 0, kMiB);
    made = &region;
  });
  const bool has_made = comes([&] { return made != nullptr; });
  const size_t registered = device.registered().size();
  ring.may_end = true;
  maker.join();
  opener.join();
  CHECK(has_begun);
  CHECK(has_made);
  CHECK(registered == 1);
  rdm_mr mr{};
  CHECK(domain->lookup(at(*made), kMiB, &mr) == RDM_OK);
  CHECK(device.registered().size() == 2);
  CHECK(registry->has_let_go(gone));
  CHECK(device.violations().empty());
}

TEST_CASE_METHOD(Fixture, "a device that refuses does not keep another from registering") {
  opened(backend);
  opened(other);
  backend.fail_from = 1;
  slowness = std::chrono::milliseconds{20};
  source.acquire(kLarge);
  REQUIRE(comes([&] { return other.registered_bytes() == kLarge; }));
  CHECK(backend.registered().empty());
  CHECK(most == 2);
}

}  // namespace rdmalloc
