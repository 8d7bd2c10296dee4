// Domains over a fake device and regions that a test adds by hand: no heap, no jemalloc.
#pragma once

#include <memory>

#include "regcache/domain/registry.h"
#include "tests/support/catch.h"
#include "tests/support/comes.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_monitor.h"
#include "tests/support/fake_region_source.h"

namespace rdmalloc::fake {

struct RegistryFixture {
  RegistryFixture() = default;
  ~RegistryFixture() { registry->stop(); }
  RegistryFixture(const RegistryFixture&) = delete;
  RegistryFixture& operator=(const RegistryFixture&) = delete;

  Domain* opened(Backend& with, rdm_domain_options options) {
    options.size = sizeof options;
    const rdm_backend operations = with.ops();
    Domain* domain = nullptr;
    REQUIRE(registry->open(&operations, &with, &options, &domain) == RDM_OK);
    return domain;
  }
  Domain* opened(Backend& with, unsigned flags = 0) {
    rdm_domain_options options{};
    options.flags = flags;
    return opened(with, options);
  }
  Domain* opened(unsigned flags = 0) { return opened(backend, flags); }

  RegistrationCounters counters() const {
    RegistrationCounters sum;
    registry->add_to(&sum);
    return sum;
  }
  // The books are consistent once the registrar is done with what it has begun.
  [[nodiscard]] bool is_valid() const {
    return test::comes([this] { return registry->domains().validate(); });
  }
  // The books are consistent, nobody uses the domain, and the device keeps nothing of it.
  void check_closes_clean(Domain* domain) {
    CHECK(is_valid());
    CHECK(registry->close(domain) == RDM_OK);
    CHECK(backend.registered().empty());
    CHECK(backend.violations().empty());
  }

  // Outlives the registry, which closes its domains.
  RegionSource source;
  Backend backend;
  std::unique_ptr<Registry> registry = std::make_unique<Registry>(source);
};

// With a monitor, so that the program's own memory can be registered too.
struct WatchedRegistryFixture : RegistryFixture {
  WatchedRegistryFixture() { monitor.can_watch = true; }
  ~WatchedRegistryFixture() {
    registry->stop();
    // From now on changes are for another test's registry.
    changes.attach(nullptr);
    changes.note_fork_child();
  }
};

}  // namespace rdmalloc::fake
