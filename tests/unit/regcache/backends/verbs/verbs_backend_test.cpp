// The verbs backend over a fake device: what it asks of libibverbs, and how it interprets the
// answers.
#include <errno.h>
#include <sys/mman.h>

#include <string>

#include "allocator/os/memory.h"
#include "tests/support/catch.h"
#include "tests/support/fake_verbs.h"

namespace rdmalloc {
namespace {

using test::FakeVerbs;

constexpr size_t kBytes = size_t{1} << 20;
constexpr unsigned kLocal = IBV_ACCESS_LOCAL_WRITE;
constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct Device {
  Device() : fake(test::reset_fake_verbs()) {}
  ~Device() {
    if (backend != nullptr) VerbsBackend::kOperations.closed(backend, 0);
  }

  int open(unsigned access, VerbsLibrary library = test::fake_verbs_library()) {
    return VerbsBackend::create(library, &fake.pd, access, &backend, why, sizeof why);
  }

  rdm_backend_limits limits() {
    rdm_backend_limits out{};
    REQUIRE(VerbsBackend::kOperations.limits(backend, &out) == RDM_OK);
    return out;
  }

  int add(rdm_backend_request request) {
    if (request.base == nullptr) request.base = memory;
    if (request.length == 0) request.length = kBytes;
    if (request.page_size == 0) request.page_size = os::page_size();
    return VerbsBackend::kOperations.register_memory(backend, &request, &key, why, sizeof why);
  }
  int add_pinned(unsigned access) {
    rdm_backend_request request{};
    request.access = access;
    request.pinned = 1;
    return add(request);
  }

  const FakeVerbs::Call& last() const { return fake.calls.back(); }
  bool said(const char* words) const { return std::string(why).find(words) != std::string::npos; }

  alignas(65536) static inline char memory[kBytes] = {};  // the largest page size
  FakeVerbs& fake;
  VerbsBackend* backend = nullptr;
  rdm_backend_key key{};
  char why[320] = {};
};

ibv_odp_caps everything_on_demand() {
  ibv_odp_caps caps{};
  caps.general_caps = IBV_ODP_SUPPORT;
  caps.per_transport_caps = {0x3f, 0x3f, 0x3f};
  return caps;
}

}  // namespace

TEST_CASE("a registration has the keys and the handle of its memory region, until it is undone") {
  Device device;
  REQUIRE(device.open(kLocal) == RDM_OK);
  REQUIRE(device.add_pinned(kLocal) == RDM_OK);
  auto* mr = static_cast<ibv_mr*>(device.key.handle);
  CHECK(device.fake.live.count(mr) == 1);
  CHECK(device.key.lkey == mr->lkey);
  CHECK(device.key.rkey == mr->rkey);
  CHECK(mr->addr == Device::memory);
  CHECK(mr->length == kBytes);
  CHECK(VerbsBackend::kOperations.deregister_memory(device.backend, &device.key) == RDM_OK);
  CHECK(device.fake.live.empty());
}

TEST_CASE("a device that is gone is not called again to register; one that failed a command is") {
  Device device;
  REQUIRE(device.open(kLocal) == RDM_OK);
  const bool is_gone = GENERATE(true, false);
  const int error = GENERATE(EIO, ENODEV);
  device.fake.refuse = [&](const FakeVerbs::Call&) { return error; };
  device.fake.query_fails = is_gone;
  for (int i = 0; i < 3; ++i) {
    CHECK(device.add_pinned(kLocal) == RDM_BACKEND_NEVER);
    CHECK(device.said("open the device anew"));
  }
  CHECK(device.fake.calls.size() == (is_gone ? 1 : 3));
  device.fake.refuse = nullptr;
  CHECK(device.add_pinned(kLocal) == (is_gone ? int{RDM_BACKEND_NEVER} : int{RDM_OK}));
}

TEST_CASE("a deregistration that the driver refuses is said") {
  Device device;
  REQUIRE(device.open(kLocal) == RDM_OK);
  REQUIRE(device.add_pinned(kLocal) == RDM_OK);
  device.fake.deregister_status = EBUSY;
  CHECK(VerbsBackend::kOperations.deregister_memory(device.backend, &device.key) == RDM_SYSTEM);
}

TEST_CASE("the device's limits become the domain's, a part left to the program") {
  Device device;
  device.fake.max_mr = 8;
  device.fake.max_mr_size = (size_t{2} << 20) + 100;
  REQUIRE(device.open(kLocal) == RDM_OK);
  const rdm_backend_limits limits = device.limits();
  CHECK(limits.max_length == size_t{2} << 20);
  CHECK(limits.max_count > 0);
  CHECK(limits.max_count < 8);
  CHECK(limits.charges == RDM_CHARGES_PROCESS);
  CHECK(limits.abilities == 0);
}

TEST_CASE("a device without limits has none") {
  Device device;
  device.fake.max_mr = 0;
  REQUIRE(device.open(kLocal) == RDM_OK);
  CHECK(device.limits().max_length == 0);
  CHECK(device.limits().max_count == 0);
}

TEST_CASE("a device that tells no limits, or useless ones, is refused with a sentence") {
  Device silent;
  silent.fake.query_fails = true;
  CHECK(silent.open(kLocal) == RDM_SYSTEM);
  CHECK(silent.said("ibv_query_device failed"));
  Device tiny;
  tiny.fake.max_mr_size = 100;
  CHECK(tiny.open(kLocal) == RDM_UNSUPPORTED);
}

TEST_CASE("a context of the older interface is asked through ibv_query_device") {
  Device device;
  device.fake.context.context.abi_compat = nullptr;
  device.fake.max_mr_size = os::page_size();
  REQUIRE(device.open(kLocal) == RDM_OK);
  CHECK(device.limits().max_length == os::page_size());
}

TEST_CASE("a region gets the rights that the core asks for, of those that the program named") {
  Device device;
  const unsigned access = kLocal | kRemote | IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING;
  REQUIRE(device.open(access) == RDM_OK);
  REQUIRE(device.add_pinned(kLocal) == RDM_OK);
  CHECK(device.last().access == (access & ~kRemote));
  REQUIRE(device.add_pinned(kLocal | kRemote) == RDM_OK);
  CHECK(device.last().access == access);
}

TEST_CASE("rights that the program did not name are not given") {
  Device device;
  REQUIRE(device.open(0) == RDM_OK);
  REQUIRE(device.add_pinned(kLocal | kRemote) == RDM_OK);
  CHECK(device.last().access == 0);
}

TEST_CASE("access that makes no sense is refused before the device is asked") {
  Device device;
  CHECK(device.open(kLocal | IBV_ACCESS_ZERO_BASED) == RDM_INVALID);
  CHECK(device.said("ZERO_BASED"));
  CHECK(device.open(IBV_ACCESS_REMOTE_WRITE) == RDM_INVALID);
  CHECK(device.said("LOCAL_WRITE"));
  CHECK(device.open(IBV_ACCESS_REMOTE_ATOMIC) == RDM_INVALID);
  CHECK(device.open(1U << 12) == RDM_INVALID);
  CHECK(device.open(IBV_ACCESS_REMOTE_READ) == RDM_OK);
}

TEST_CASE("no protection domain is refused") {
  Device device;
  VerbsBackend* backend = nullptr;
  CHECK(VerbsBackend::create(test::fake_verbs_library(), nullptr, kLocal, &backend, device.why,
                             sizeof device.why) == RDM_INVALID);
  CHECK(device.said("ibv_alloc_pd"));
}

TEST_CASE("a libibverbs without optional access is not given any") {
  Device device;
  VerbsLibrary old = test::fake_verbs_library();
  old.reg_mr_iova2 = nullptr;
  old.is_fork_initialized = nullptr;
  REQUIRE(device.open(kLocal | IBV_ACCESS_RELAXED_ORDERING, old) == RDM_OK);
  REQUIRE(device.add_pinned(kLocal) == RDM_OK);
  CHECK(device.last().access == kLocal);
  CHECK_FALSE(device.last().optional_access);
}

TEST_CASE("paging on demand is refused where the device cannot") {
  Device device;
  CHECK(device.open(kLocal | IBV_ACCESS_ON_DEMAND) == RDM_UNSUPPORTED);
  CHECK(device.said("page on demand"));
}

TEST_CASE("with paging on demand nothing is charged, and memory that is not pinned is taken") {
  Device device;
  device.fake.odp.general_caps = IBV_ODP_SUPPORT;
  REQUIRE(device.open(kLocal | IBV_ACCESS_ON_DEMAND) == RDM_OK);
  CHECK(device.limits().charges == RDM_CHARGES_NOTHING);
  CHECK(device.limits().abilities == RDM_BACKEND_ON_DEMAND);
  REQUIRE(device.add_pinned(kLocal) == RDM_OK);
  CHECK(device.last().access == (kLocal | IBV_ACCESS_ON_DEMAND));
}

TEST_CASE("unasked, only memory that is not pinned is paged on demand") {
  Device device;
  device.fake.odp = everything_on_demand();
  REQUIRE(device.open(kLocal) == RDM_OK);
  CHECK(device.limits().charges == RDM_CHARGES_PROCESS);
  CHECK(device.limits().abilities == RDM_BACKEND_ON_DEMAND);
  rdm_backend_request request{};
  request.access = kLocal;
  REQUIRE(device.add(request) == RDM_OK);
  CHECK(device.last().access == (kLocal | IBV_ACCESS_ON_DEMAND));
  REQUIRE(device.add_pinned(kLocal) == RDM_OK);
  CHECK(device.last().access == kLocal);
}

TEST_CASE(
    "foreign memory is pinned by registering it, and paged on demand where that was asked for") {
  Device device;
  device.fake.odp = everything_on_demand();
  const unsigned asked = GENERATE(0U, unsigned{IBV_ACCESS_ON_DEMAND});
  REQUIRE(device.open(kLocal | asked) == RDM_OK);
  rdm_backend_request request{};
  request.access = kLocal;
  request.foreign = 1;
  REQUIRE(device.add(request) == RDM_OK);
  CHECK(device.last().access == (kLocal | asked));
}

TEST_CASE("unasked, nothing is paged on demand by a device that cannot receive into such memory") {
  Device device;
  device.fake.odp = everything_on_demand();
  device.fake.odp.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND;
  REQUIRE(device.open(kLocal) == RDM_OK);
  CHECK(device.limits().abilities == 0);
}

TEST_CASE("what a device reports for RC is enough where it reports nothing for UC and UD") {
  Device device;
  device.fake.odp = everything_on_demand();
  device.fake.odp.per_transport_caps.uc_odp_caps = 0;
  device.fake.odp.per_transport_caps.ud_odp_caps = 0;
  REQUIRE(device.open(kLocal) == RDM_OK);
  CHECK(device.limits().abilities == RDM_BACKEND_ON_DEMAND);
}

TEST_CASE("huge pages are named to paging alone, and not when the driver refuses") {
  Device device;
  device.fake.odp.general_caps = IBV_ODP_SUPPORT;
  REQUIRE(device.open(kLocal | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB) == RDM_OK);
  REQUIRE(device.add_pinned(kLocal) == RDM_OK);
  CHECK((device.last().access & IBV_ACCESS_HUGETLB) == 0);
  rdm_backend_request huge{};
  huge.access = kLocal;
  huge.pinned = 1;
  huge.page_size = 2 << 20;
  REQUIRE(device.add(huge) == RDM_OK);
  CHECK((device.last().access & IBV_ACCESS_HUGETLB) != 0);
  device.fake.refuse = [](const FakeVerbs::Call& call) {
    return (call.access & IBV_ACCESS_HUGETLB) != 0 ? EINVAL : 0;
  };
  REQUIRE(device.add(huge) == RDM_OK);
  CHECK(device.last().access == (kLocal | IBV_ACCESS_ON_DEMAND));
}

TEST_CASE("without paging huge pages are not named") {
  Device device;
  REQUIRE(device.open(kLocal | IBV_ACCESS_HUGETLB) == RDM_OK);
  rdm_backend_request huge{};
  huge.access = kLocal;
  huge.pinned = 1;
  huge.page_size = 2 << 20;
  REQUIRE(device.add(huge) == RDM_OK);
  CHECK(device.last().access == kLocal);
}

TEST_CASE("libibverbs is found, or its package is named") {
  const char* missing = nullptr;
  const VerbsLibrary* const library = find_verbs_library(&missing);
  if (library == nullptr) {
    CHECK(std::string(missing).find("libibverbs1") != std::string::npos);
    return;
  }
  CHECK(library->reg_mr != nullptr);
  CHECK(library->dereg_mr != nullptr);
  CHECK(library->query_device != nullptr);
}

}  // namespace rdmalloc
