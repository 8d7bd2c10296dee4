// The libfabric backend over a fake domain: what it registers, with which keys and rights, and how
// it handles domains and failures of all kinds.
#include <rdma/fi_errno.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "include/rdmalloc/ofi.h"
#include "regcache/domain/registry.h"
#include "tests/support/catch.h"
#include "tests/support/fake_ofi.h"
#include "tests/support/fake_region_source.h"

namespace rdmalloc {
namespace {

using fake::at;
using Kind = OfiBackend::Kind;
using test::FakeOfi;

constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kLocal = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
constexpr uint64_t kReads = FI_SEND | FI_WRITE;
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;

// A registry over a fake source of regions, and a fake libfabric domain to open domains on.
struct Fixture {
  Fixture() : ofi(test::reset_fake_ofi()) {}
  // As at the end of a program; closing fails for those that a test closed itself.
  ~Fixture() {
    for (Domain* domain : domains) (void)registry->close(domain);
    registry->stop();
  }

  // Opens the backend and then the domain, as rdm_domain_open_ofi() does.
  int open(Domain** out, uint64_t access = 0, unsigned flags = 0, Kind kind = Kind::kUnknown) {
    OfiBackend* backend = nullptr;
    int status = OfiBackend::create(ofi.domain(), access, kind, &backend, why, sizeof why,
                                    test::fake_ofi_pinned);
    if (status != RDM_OK) return status;
    trials = ofi.registered.size();
    rdm_domain_options options{};
    options.size = sizeof options;
    options.flags = flags;
    options.access = OfiBackend::rights_of(access);
    options.error = why;
    options.error_size = sizeof why;
    status = registry->open(&OfiBackend::kOperations, backend, &options, out);
    if (status != RDM_OK) {
      OfiBackend::destroy(backend);
    } else {
      domains.push_back(*out);
    }
    return status;
  }
  Domain* opened(uint64_t access = 0, unsigned flags = 0) {
    Domain* domain = nullptr;
    REQUIRE(open(&domain, access, flags) == RDM_OK);
    return domain;
  }
  uint64_t access_of(const Region& region) const {
    for (const auto& entry : ofi.live) {
      if (entry.second.base == reinterpret_cast<void*>(region.base)) return entry.second.access;
    }
    return 0;
  }
  bool said(const char* words) const { return std::string(why).find(words) != std::string::npos; }

  FakeOfi& ofi;
  std::vector<Domain*> domains;
  fake::RegionSource source;
  std::unique_ptr<Registry> registry = std::make_unique<Registry>(source);
  size_t trials = 0;  // registrations before the domain's own
  char why[320] = {};
};

rdm_backend_limits limits_of(FakeOfi& ofi, Kind kind = Kind::kUnknown) {
  OfiBackend* backend = nullptr;
  char why[320];
  rdm_backend_limits limits{};
  REQUIRE(OfiBackend::create(ofi.domain(), 0, kind, &backend, why, sizeof why,
                             test::fake_ofi_pinned) == RDM_OK);
  REQUIRE(OfiBackend::kOperations.limits(backend, &limits) == RDM_OK);
  OfiBackend::destroy(backend);
  return limits;
}

}  // namespace

TEST_CASE("each region is registered whole, and its lookup has the fid_mr, until the domain goes") {
  Fixture f;
  const Region& region = f.source.acquire(3 * kMiB);
  Domain* domain = f.opened();
  CHECK(f.ofi.registered.size() == f.trials + 1);
  rdm_mr mr{};
  REQUIRE(domain->lookup(at(region, kMiB + 1), 100, &mr) == RDM_OK);
  CHECK(mr.base == at(region));
  CHECK(mr.length == 3 * kMiB);
  auto* handle = static_cast<fid_mr*>(mr.handle);
  CHECK(f.ofi.live.at(&handle->fid).length == 3 * kMiB);
  CHECK(static_cast<uint32_t>(fi_mr_key(handle)) == mr.rkey);
  CHECK(f.registry->close(domain) == RDM_OK);
  CHECK(f.ofi.live.empty());
}

TEST_CASE("a region that comes later is registered by a thread of ours, or by the first lookup") {
  Fixture f;
  Domain* domain = f.opened();
  const Region& region = f.source.acquire(kMiB);
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_OK);
  CHECK(f.ofi.registered.size() == f.trials + 1);
}

TEST_CASE("when the k-th registration fails, those before it are undone and the reason is told") {
  const size_t failing = GENERATE(range(size_t{0}, size_t{5}));
  Fixture f;
  for (int i = 0; i < 4; ++i) f.source.acquire(kMiB);
  f.ofi.answer = [failing](size_t call) { return call == failing ? FI_EIO : 0; };
  Domain* domain = nullptr;
  CHECK(f.open(&domain) == RDM_SYSTEM);
  CHECK(domain == nullptr);
  CHECK(f.ofi.live.empty());
  CHECK(f.said("fi_mr_reg refused"));
}

TEST_CASE("peers' rights go to exposed regions only, unless the heap is shared") {
  const bool shared = GENERATE(false, true);
  Fixture f;
  const Region& heap = f.source.acquire(kMiB);
  const Region& exposed = f.source.acquire(kMiB, RegionKind::kPinned, true);
  (void)f.opened(kLocal | kRemote, shared ? RDM_DOMAIN_SHARE_HEAP : 0);
  CHECK(f.access_of(exposed) == (kLocal | kRemote));
  CHECK(f.access_of(heap) == (shared ? kLocal | kRemote : kLocal));
}

TEST_CASE("rights that the program did not name are not given; reading locally always is") {
  struct {
    uint64_t named, given;
  } const cases[] = {{0, kLocal},
                     {FI_SEND, kReads},
                     {FI_RECV, kReads | FI_RECV},
                     {FI_REMOTE_READ, kReads | FI_REMOTE_READ},
                     {FI_REMOTE_WRITE, kReads | FI_REMOTE_WRITE}};
  for (const auto& each : cases) {
    Fixture f;
    const Region& region = f.source.acquire(kMiB, RegionKind::kPinned, true);
    (void)f.opened(each.named);
    CHECK(f.access_of(region) == each.given);
  }
}

TEST_CASE("what is no libfabric domain, and access that is no access, is refused with a sentence") {
  Fixture f;
  OfiBackend* backend = nullptr;
  CHECK(OfiBackend::create(nullptr, 0, Kind::kUnknown, &backend, f.why, sizeof f.why) ==
        RDM_INVALID);
  CHECK(f.said("fi_domain gives one"));
  fid_domain endpoint = *f.ofi.domain();
  endpoint.fid.fclass = FI_CLASS_EP;
  CHECK(OfiBackend::create(&endpoint, 0, Kind::kUnknown, &backend, f.why, sizeof f.why) ==
        RDM_INVALID);
  Domain* domain = nullptr;
  CHECK(f.open(&domain, FI_MULTI_RECV) == RDM_INVALID);
  CHECK(f.said("FI_REMOTE_WRITE"));
  CHECK(f.ofi.registered.empty());
  CHECK(rdm_domain_open_ofi(nullptr, 0, nullptr, nullptr) == RDM_INVALID);
  rdm_domain_options wrong{};
  wrong.size = 1;
  rdm_domain* out = nullptr;
  CHECK(rdm_domain_open_ofi(f.ofi.domain(), 0, &wrong, &out) == RDM_INVALID);
}

TEST_CASE("each registration has a key of its own, of those that are set aside") {
  Fixture f;
  for (int i = 0; i < 100; ++i) f.source.acquire(kMiB);
  (void)f.opened();
  std::set<uint64_t> keys;
  for (const auto& entry : f.ofi.live) keys.insert(entry.second.key - RDM_OFI_FIRST_KEY);
  CHECK(keys.size() == 100);
  CHECK(*keys.rbegin() <= UINT32_MAX);
}

TEST_CASE("keys that the program has taken are stepped over") {
  Fixture f;
  std::vector<fid_mr*> theirs(8);
  size_t i = 0;
  for (fid_mr*& mr : theirs) {
    REQUIRE(fi_mr_reg(f.ofi.domain(), &i, sizeof i, FI_SEND, 0, RDM_OFI_FIRST_KEY + i++, 0, &mr,
                      nullptr) == 0);
  }
  const Region& region = f.source.acquire(kMiB);
  Domain* domain = f.opened();
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_OK);
  for (fid_mr* mine : theirs) fi_close(&mine->fid);
}

TEST_CASE("where all keys are taken, and where none is taken, the sentence says so") {
  Fixture f;
  Domain* domain = nullptr;
  f.ofi.answer = [](size_t) { return FI_ENOKEY; };
  CHECK(f.open(&domain) == RDM_SYSTEM);
  CHECK(f.said("RDM_OFI_FIRST_KEY"));
  f.ofi.answer = nullptr;
  f.ofi.largest_key = 100;
  CHECK(f.open(&domain) == RDM_UNSUPPORTED);
  CHECK(f.said("FI_MR_PROV_KEY"));
}

TEST_CASE("a domain whose keys have few bits gets short ones") {
  Fixture f;
  f.ofi.largest_key = UINT32_MAX;
  f.source.acquire(kMiB);
  (void)f.opened();
  REQUIRE(f.ofi.live.size() == 1);
  const uint64_t key = f.ofi.live.begin()->second.key;
  CHECK(key - RDM_OFI_FIRST_SHORT_KEY <= UINT16_MAX);
}

TEST_CASE("a domain with raw keys is served; one that registers for endpoints is refused") {
  {
    Fixture raw;
    raw.ofi.has_raw_keys = true;
    (void)raw.opened();
  }
  Fixture endpoints;
  endpoints.ofi.is_for_endpoints = true;
  Domain* domain = nullptr;
  CHECK(endpoints.open(&domain) == RDM_UNSUPPORTED);
  CHECK(endpoints.said("FI_MR_ENDPOINT"));
  CHECK(endpoints.ofi.live.empty());
}

TEST_CASE("what a provider pins is charged to the process, and nothing where it pins nothing") {
  FakeOfi& pinning = test::reset_fake_ofi();
  pinning.pins = 1;
  CHECK(limits_of(pinning).charges == RDM_CHARGES_PROCESS);
  FakeOfi& copying = test::reset_fake_ofi();
  CHECK(limits_of(copying).charges == RDM_CHARGES_NOTHING);
}

TEST_CASE("a domain that is known to pin registers nothing by trial, and its regions are charged") {
  Fixture f;
  f.ofi.pins = 1;
  const Region& region = f.source.acquire(kMiB);
  Domain* domain = nullptr;
  REQUIRE(f.open(&domain, 0, RDM_DOMAIN_WHEN_ASKED, Kind::kPins) == RDM_OK);
  CHECK(domain->parts().device.limits().charges == RDM_CHARGES_PROCESS);
  CHECK(f.ofi.registered.empty());
  rdm_mr mr;
  CHECK(domain->lookup(at(region), kMiB, &mr) == RDM_OK);
  CHECK(f.ofi.registered.size() == 1);
  REQUIRE(f.open(&domain, 0, RDM_DOMAIN_WHEN_ASKED) == RDM_OK);
  CHECK(f.ofi.registered.size() > 1);
}

TEST_CASE("a memlock limit that is reached is told from a provider out of memory") {
  Fixture f;
  Domain* domain = nullptr;
  f.source.acquire(64 * kMiB);
  f.ofi.answer = [](size_t call) { return call == 0 ? 0 : FI_ENOMEM; };
  CHECK(f.open(&domain) == RDM_SYSTEM);
  CHECK(f.said("dmesg"));
  fake::machine().lock = {64 << 10, 64 << 10, false};
  CHECK(f.open(&domain) == RDM_OUT_OF_BUDGET);
  CHECK(f.said("ulimit -l"));
}

TEST_CASE("memory that is not mapped is told with its place") {
  char why[320];
  // Page zero is never mapped.
  const OfiAttempt attempt{nullptr, os::page_size(), kLocal, FI_EFAULT, 0};
  CHECK(explain_ofi_failure(attempt, why, sizeof why) == RDM_SYSTEM);
  CHECK(std::string(why).find("is not mapped") != std::string::npos);
}

TEST_CASE("a registered heap is shown to children; foreign memory stays as the program wants it") {
  Fixture f;
  const Region& region = f.source.acquire(kMiB);
  (void)f.opened();
  REQUIRE(f.ofi.shown.size() == 1);
  CHECK(f.ofi.shown[0] == at(region));
  OfiBackend* backend = nullptr;
  REQUIRE(OfiBackend::create(f.ofi.domain(), 0, Kind::kUnknown, &backend, f.why, sizeof f.why,
                             test::fake_ofi_pinned) == RDM_OK);
  rdm_backend_request request{};
  char foreign[64];
  request.base = foreign;
  request.length = sizeof foreign;
  request.foreign = 1;
  rdm_backend_key key{};
  REQUIRE(backend->register_memory(request, &key, f.why, sizeof f.why) == RDM_OK);
  CHECK(f.ofi.shown.size() == 1);
  CHECK(backend->deregister_memory(key) == RDM_OK);
  OfiBackend::destroy(backend);
}

TEST_CASE("a child of fork forgets the domain without a call to libfabric") {
  Fixture f;
  const Region& region = f.source.acquire(kMiB);
  Domain* domain = f.opened();
  f.registry->stop();  // as in a child, which has no such thread
  f.source.fork();
  rdm_mr mr{};
  CHECK(domain->lookup(at(region), 1, &mr) == RDM_NOT_REGISTERED);
  CHECK(f.registry->close(domain) == RDM_OK);
  CHECK(f.ofi.live.size() == 1);
  for (const auto& entry : std::map(f.ofi.live)) fi_close(entry.first);
}

TEST_CASE("a deregistration that the provider refuses is said") {
  Fixture f;
  f.source.acquire(kMiB);
  Domain* domain = f.opened();
  f.ofi.close_status = -FI_EBUSY;
  CHECK(f.registry->close(domain) == RDM_SYSTEM);
  f.ofi.close_status = 0;
  for (const auto& entry : std::map(f.ofi.live)) fi_close(entry.first);
}

}  // namespace rdmalloc
