// The lookup that is compiled into programs gives the same answers as the library's.
#include "include/rdmalloc/inline.h"

#include <memory>
#include <random>

#include "regcache/domain/registry.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_region_source.h"

using rdmalloc::Domain;

namespace {
int calls = 0;
}

// In librdmalloc.so this is in c_api.cpp.
extern "C" int rdm_lookup(const rdm_domain* domain, const void* address, size_t length,
                          rdm_mr* out) {
  ++calls;
  auto* own = reinterpret_cast<Domain*>(const_cast<rdm_domain*>(domain));
  return own->lookup(address, length, out);
}

namespace rdmalloc {

TEST_CASE("the inline lookup answers as rdm_lookup does, and calls it for misses only") {
  constexpr size_t kMiB = size_t{1} << 20;
  fake::RegionSource source;
  fake::Backend backend;
  backend.limits.abilities = RDM_BACKEND_IN_MALLOC;
  backend.limits.max_length = 8 * kMiB;
  backend.fail_only = 4;
  auto registry = std::make_unique<Registry>(source);
  const rdm_backend ops = backend.ops();
  Domain* domain = nullptr;
  REQUIRE(registry->open(&ops, &backend, nullptr, &domain) == RDM_OK);
  for (const size_t length : {kMiB, 3 * kMiB, 20 * kMiB, 5 * kMiB, kMiB}) source.acquire(length);
  source.acquire(kMiB, RegionKind::kOverflow);

  std::mt19937 random(7);
  int hits = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Region& region = source.regions()[random() % source.regions().size()];
    const auto* address =
        reinterpret_cast<const char*>(region.base) + random() % (region.length + kMiB);
    const size_t length = random() % 8 == 0 ? random() % 2 * SIZE_MAX : random() % kMiB;
    rdm_mr theirs{};
    rdm_mr ours{};
    const int expected = domain->lookup(address, length, &theirs);
    const auto* handle = reinterpret_cast<const rdm_domain*>(domain);
    calls = 0;
    REQUIRE(rdm_lookup_inline(handle, address, length, &ours) == expected);
    if (expected != RDM_OK) {
      REQUIRE(calls == 1);
      continue;
    }
    REQUIRE((theirs.base == ours.base && theirs.length == ours.length));
    REQUIRE((theirs.lkey == ours.lkey && theirs.rkey == ours.rkey));
    REQUIRE(theirs.handle == ours.handle);
    REQUIRE(backend.covers(ours, address, length));
    hits += calls == 0 ? 1 : 0;
  }
  CHECK(hits > 1000);
  CHECK(registry->close(domain) == RDM_OK);
}

}  // namespace rdmalloc
