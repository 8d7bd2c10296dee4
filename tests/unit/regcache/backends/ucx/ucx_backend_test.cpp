// The UCX backend over a fake UCX: what it maps, on which thread, and how it handles failures.
#include <string.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "regcache/domain/registry.h"
#include "tests/support/catch.h"
#include "tests/support/comes.h"
#include "tests/support/fake_region_source.h"
#include "tests/support/fake_ucx.h"

namespace rdmalloc {
namespace {

using fake::at;
using test::FakeUcx;

constexpr size_t kMiB = size_t{1} << 20;

// A registry over a fake source of regions, and a fake UCX to open domains on.
struct Fixture {
  Fixture() : ucx(test::reset_fake_ucx()) {}
  // As at the end of a program; closing fails for those that a test closed itself.
  ~Fixture() {
    for (Domain* domain : domains) (void)registry->close(domain);
    registry->stop();
  }

  // Opens the backend and then the domain, as rdm_domain_open_ucx() does.
  int open(Domain** out) {
    UcxBackend* backend = nullptr;
    int status =
        UcxBackend::create(test::fake_ucx_library(), ucx.context(), &backend, why, sizeof why);
    if (status != RDM_OK) return status;
    trials = ucx.mapped.size();
    rdm_domain_options options{};
    options.size = sizeof options;
    options.error = why;
    options.error_size = sizeof why;
    status = registry->open(&UcxBackend::kOperations, backend, &options, out);
    if (status != RDM_OK) {
      UcxBackend::destroy(backend);
    } else {
      domains.push_back(*out);
    }
    return status;
  }
  Domain* opened() {
    Domain* domain = nullptr;
    REQUIRE(open(&domain) == RDM_OK);
    return domain;
  }
  bool said(const char* words) const { return std::string(why).find(words) != std::string::npos; }
  bool has_mapped(size_t count) {
    const std::lock_guard<std::mutex> hold(ucx.mutex);
    return ucx.live.size() == count;
  }

  FakeUcx& ucx;
  fake::RegionSource source;
  std::unique_ptr<Registry> registry = std::make_unique<Registry>(source);
  size_t trials = 0;  // mappings before the domain's own
  std::vector<Domain*> domains;
  char why[320] = {};
};

}  // namespace

TEST_CASE("each region is mapped as a whole, and its lookup has the handle that UCX gave") {
  Fixture f;
  const Region& region = f.source.acquire(3 * kMiB);
  Domain* domain = f.opened();
  CHECK(f.ucx.mapped.size() == f.trials + 1);
  rdm_mr mr{};
  REQUIRE(domain->lookup(at(region, kMiB + 1), 100, &mr) == RDM_OK);
  CHECK(mr.base == at(region));
  CHECK(mr.length == 3 * kMiB);
  const FakeUcx::Mapping& mapping = f.ucx.live.at(static_cast<ucp_mem_h>(mr.handle));
  CHECK(mapping.base == at(region));
  CHECK(mapping.length == 3 * kMiB);
}

TEST_CASE("a failure at any mapping undoes those before it, and is told") {
  const size_t k = GENERATE(0, 1, 2, 3);
  Fixture f;
  for (int i = 0; i < 3; ++i) f.source.acquire(kMiB);
  f.ucx.answer = [k](size_t before) { return before == k ? UCS_ERR_IO_ERROR : UCS_OK; };
  Domain* domain = nullptr;
  CHECK(f.open(&domain) == RDM_SYSTEM);
  CHECK(domain == nullptr);
  CHECK(f.ucx.live.empty());
  CHECK(f.said("made-up failure"));
  CHECK(f.said("UCX_LOG_LEVEL"));
}

TEST_CASE("a late region is mapped by a thread of ours, and not by the one that acquires it") {
  Fixture f;
  Domain* domain = f.opened();
  f.source.acquire(kMiB);
  REQUIRE(test::comes([&f] { return f.has_mapped(1); }));
  CHECK(f.ucx.mapped.back().thread != std::this_thread::get_id());
  CHECK(f.registry->close(domain) == RDM_OK);
}

TEST_CASE("children of fork keep the heap, and are not shown what the program hides from them") {
  Fixture f;
  const Region& region = f.source.acquire(kMiB);
  f.opened();
  CHECK(f.ucx.shown == std::vector<void*>{at(region)});
  UcxBackend* backend = nullptr;
  REQUIRE(UcxBackend::create(test::fake_ucx_library(), f.ucx.context(), &backend, f.why,
                             sizeof f.why) == RDM_OK);
  rdm_backend_request request{};
  request.base = f.why;
  request.length = sizeof f.why;
  request.foreign = 1;
  rdm_backend_key key{};
  char why[320] = {};
  REQUIRE(UcxBackend::kOperations.register_memory(backend, &request, &key, why, sizeof why) ==
          RDM_OK);
  CHECK(f.ucx.shown.size() == 1);
  UcxBackend::kOperations.closed(backend, 0);
}

TEST_CASE("nothing is ever mapped inside malloc") {
  Fixture f;
  UcxBackend* backend = nullptr;
  REQUIRE(UcxBackend::create(test::fake_ucx_library(), f.ucx.context(), &backend, f.why,
                             sizeof f.why) == RDM_OK);
  rdm_backend_limits limits{};
  REQUIRE(UcxBackend::kOperations.limits(backend, &limits) == RDM_OK);
  CHECK((limits.abilities & RDM_BACKEND_IN_MALLOC) == 0);
  UcxBackend::kOperations.closed(backend, 0);
}

TEST_CASE("closing unmaps everything, the last first") {
  Fixture f;
  const void* first = at(f.source.acquire(kMiB));
  const void* second = at(f.source.acquire(2 * kMiB));
  Domain* domain = f.opened();
  f.ucx.unmapped.clear();
  CHECK(f.registry->close(domain) == RDM_OK);
  CHECK(f.ucx.live.empty());
  REQUIRE(f.ucx.unmapped.size() == 2);
  CHECK(f.ucx.unmapped[0] == second);
  CHECK(f.ucx.unmapped[1] == first);
}

TEST_CASE("a child of fork owns no mapping, and closes without a call to UCX") {
  Fixture f;
  const Region& region = f.source.acquire(kMiB);
  Domain* domain = f.opened();
  const size_t mapped = f.ucx.mapped.size();
  f.registry->stop();  // as in a child, which has no such thread
  f.source.fork();
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_NOT_REGISTERED);
  const size_t unmapped = f.ucx.unmapped.size();
  CHECK(f.registry->close(domain) == RDM_OK);
  CHECK(f.ucx.mapped.size() == mapped);
  CHECK(f.ucx.unmapped.size() == unmapped);
}

TEST_CASE("a context for one thread is refused, and the sentence says what to set") {
  Fixture f;
  f.ucx.thread_mode = UCS_THREAD_MODE_SINGLE;
  Domain* domain = nullptr;
  CHECK(f.open(&domain) == RDM_INVALID);
  CHECK(f.said("mt_workers_shared"));
  CHECK(f.ucx.mapped.empty());
}

TEST_CASE("what the transports pin is charged to the process, and what they do not pin is not") {
  Fixture f;
  f.ucx.pins = GENERATE(0U, 1U, 2U);
  UcxBackend* backend = nullptr;
  REQUIRE(UcxBackend::create(test::fake_ucx_library(), f.ucx.context(), &backend, f.why,
                             sizeof f.why) == RDM_OK);
  CHECK(f.ucx.live.empty());
  rdm_backend_limits limits{};
  REQUIRE(UcxBackend::kOperations.limits(backend, &limits) == RDM_OK);
  CHECK(limits.charges == (f.ucx.pins == 0 ? RDM_CHARGES_NOTHING : RDM_CHARGES_PROCESS));
  UcxBackend::kOperations.closed(backend, 0);
}

TEST_CASE("under a memlock limit the heap takes what UCX leaves, and the sentence says so") {
  Fixture f;
  const uint64_t limit = kUcxOwnPins + 4 * kMiB;
  f.ucx.pins = GENERATE(0U, 1U);
  fake::machine().lock = {limit, limit, false};
  f.source.acquire(3 * kMiB);
  Domain* domain = f.opened();
  CHECK(f.registry->close(domain) == RDM_OK);
  f.source.acquire(2 * kMiB);
  if (f.ucx.pins == 0) {
    CHECK(f.open(&domain) == RDM_OK);
    return;
  }
  CHECK(f.open(&domain) == RDM_OUT_OF_BUDGET);
  CHECK(f.said("64 MiB"));
  CHECK(f.said("ulimit -l"));
  CHECK(f.ucx.live.empty());
}

TEST_CASE("what UCX has pinned of its own by now is not left to it twice") {
  Fixture f;
  f.ucx.pins = 1;
  const uint64_t limit = kUcxOwnPins + 4 * kMiB;
  fake::machine().lock = {limit, limit, false};
  f.ucx.pinned = kUcxOwnPins;
  f.source.acquire(3 * kMiB);
  f.opened();
  CHECK(f.ucx.live.size() == 1);
}

TEST_CASE(
    "who comes from a mapping to open or close a domain is refused, and does not wait for ever") {
  Fixture f;
  f.source.acquire(kMiB);
  Domain* first = f.opened();
  int opened = RDM_OK;
  int closed = RDM_OK;
  char why[320] = {};
  const size_t trial = f.ucx.mapped.size();  // made before there is a domain that could request it
  f.ucx.answer = [&](size_t before) {
    if (before == trial) return UCS_OK;
    rdm_domain_options options{};
    options.size = sizeof options;
    options.error = why;
    options.error_size = sizeof why;
    Domain* domain = nullptr;
    opened = f.registry->open(&UcxBackend::kOperations, nullptr, &options, &domain);
    closed = f.registry->close(first);
    return UCS_OK;
  };
  Domain* second = f.opened();
  CHECK(opened == RDM_BUSY);
  CHECK(closed == RDM_BUSY);
  CHECK(strlen(why) > 0);
  f.ucx.answer = nullptr;
  CHECK(f.registry->close(second) == RDM_OK);
  CHECK(f.registry->close(first) == RDM_OK);
}

TEST_CASE("two registrations of the same memory are told apart, though UCX shares the handle") {
  Fixture f;
  f.ucx.shares_handles = true;
  UcxBackend* backend = nullptr;
  REQUIRE(UcxBackend::create(test::fake_ucx_library(), f.ucx.context(), &backend, f.why,
                             sizeof f.why) == RDM_OK);
  static char memory[64];
  rdm_backend_request request{};
  request.base = memory;
  request.length = sizeof memory;
  request.foreign = 1;
  rdm_backend_key keys[2] = {};
  for (rdm_backend_key& key : keys) {
    REQUIRE(UcxBackend::kOperations.register_memory(backend, &request, &key, f.why, sizeof f.why) ==
            RDM_OK);
  }
  CHECK(keys[0].handle == keys[1].handle);
  CHECK(keys[0].lkey != keys[1].lkey);
  UcxBackend::kOperations.closed(backend, 0);
}

TEST_CASE("bad arguments are refused") {
  rdm_domain* domain = nullptr;
  CHECK(rdm_domain_open_ucx(nullptr, nullptr, nullptr) == RDM_INVALID);
  rdm_domain_options options{};
  options.size = 1;
  CHECK(rdm_domain_open_ucx(nullptr, &options, &domain) == RDM_INVALID);
  UcxBackend* backend = nullptr;
  char why[320] = {};
  CHECK(UcxBackend::create(test::fake_ucx_library(), nullptr, &backend, why, sizeof why) ==
        RDM_INVALID);
  CHECK(std::string(why).find("ucp_init") != std::string::npos);
}

TEST_CASE("a program without UCX is told that none is loaded") {
  char why[320] = {};
  rdm_domain_options options{};
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  int context = 0;
  CHECK(rdm_domain_open_ucx(reinterpret_cast<ucp_context_h>(&context), &options, &domain) ==
        RDM_UNSUPPORTED);
  CHECK(std::string(why).find("libucp.so.0") != std::string::npos);
}

}  // namespace rdmalloc
