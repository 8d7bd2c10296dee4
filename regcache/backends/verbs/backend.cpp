#include "regcache/backends/verbs/backend.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "allocator/failure.h"
#include "allocator/os/memory.h"
#include "regcache/backend_table.h"
#include "regcache/domain/fork_gate.h"
#include "regcache/domain/open_domain.h"

namespace rdmalloc {
namespace {

constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kRights = IBV_ACCESS_LOCAL_WRITE | kRemote;
constexpr unsigned kNeedLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kKnown = kRights | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND |
                            IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
static_assert(int{RDM_LOCAL_WRITE} == int{IBV_ACCESS_LOCAL_WRITE});
static_assert(int{RDM_REMOTE_WRITE} == int{IBV_ACCESS_REMOTE_WRITE});
static_assert(int{RDM_REMOTE_READ} == int{IBV_ACCESS_REMOTE_READ});
static_assert(int{RDM_REMOTE_ATOMIC} == int{IBV_ACCESS_REMOTE_ATOMIC});

int check_access(unsigned access, char* why, size_t size) {
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) {
    return fail(RDM_INVALID,
                "IBV_ACCESS_ZERO_BASED cannot be had: keys of a domain go with real addresses", why,
                size);
  }
  if ((access & ~kKnown) != 0) {
    return fail(RDM_INVALID, "access has bits that are no IBV_ACCESS_ flags this library knows",
                why, size);
  }
  if ((access & kNeedLocalWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    return fail(RDM_INVALID,
                "remote writes and atomics need IBV_ACCESS_LOCAL_WRITE: add it to access", why,
                size);
  }
  return RDM_OK;
}

// If the device reports nothing for a transport, as mlx5 does for UC, that transport pages nothing
// on demand and nothing is required of it; if it reports something, the transport must send and
// receive.
bool sends_and_receives(uint32_t abilities) {
  constexpr uint32_t kMessages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
  return abilities == 0 || (abilities & kMessages) == kMessages;
}

// Covers every way in which the program may use memory for which it never asked on-demand paging.
bool serves_everything(const ibv_odp_caps& caps, unsigned access) {
  uint32_t need =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) need |= IBV_ODP_SUPPORT_ATOMIC;
  const auto& transport = caps.per_transport_caps;
  return (caps.general_caps & IBV_ODP_SUPPORT) != 0 && (transport.rc_odp_caps & need) == need &&
         sends_and_receives(transport.uc_odp_caps) && sends_and_receives(transport.ud_odp_caps);
}

size_t clamp(uint64_t bytes) { return bytes > SIZE_MAX / 2 ? 0 : static_cast<size_t>(bytes); }

}  // namespace

int VerbsBackend::create(const VerbsLibrary& library, ibv_pd* pd, unsigned access,
                         VerbsBackend** out, char* why, size_t size) {
  if (pd == nullptr || pd->context == nullptr) {
    return fail(RDM_INVALID, "there is no protection domain: ibv_alloc_pd gives one", why, size);
  }
  int status = check_access(access, why, size);
  if (status == RDM_OK && (access & IBV_ACCESS_ON_DEMAND) == 0) {
    status = check_verbs_fork(library, pd, why, size);
  }
  if (status != RDM_OK) return status;
  void* memory = malloc(sizeof(VerbsBackend));
  if (memory == nullptr) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  auto* backend = new (memory) VerbsBackend(library, pd, access);
  status = backend->query(why, size);
  if (status != RDM_OK) {
    destroy(backend);
    return status;
  }
  fork_gate.register_handlers();
  *out = backend;
  return RDM_OK;
}

void VerbsBackend::destroy(VerbsBackend* backend, bool) {
  backend->~VerbsBackend();
  free(backend);
}

int VerbsBackend::query(char* why, size_t size) {
  ibv_device_attr_ex device{};
  // Called through the context's table: the inline function of verbs.h would require linking
  // libibverbs.
  verbs_context* extended = verbs_get_ctx_op(pd_->context, query_device_ex);
  const bool known = extended != nullptr &&
                     extended->query_device_ex(pd_->context, nullptr, &device, sizeof device) == 0;
  if (!known) {
    device = {};
    if (library_.query_device(pd_->context, &device.orig_attr) != 0) {
      return fail(RDM_SYSTEM, "the device does not tell its limits (ibv_query_device failed)", why,
                  size);
    }
  }
  device_pages_on_demand_ = (device.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
  safe_on_demand_ = serves_everything(device.odp_caps, access_);
  if (pages_on_demand() && !device_pages_on_demand_) {
    return fail(
        RDM_UNSUPPORTED,
        "this device cannot page on demand: leave IBV_ACCESS_ON_DEMAND away, and the heap is "
        "registered pinned (ibv_devinfo -v lists what a device can do)",
        why, size);
  }
  max_length_ = os::page_floor(clamp(device.orig_attr.max_mr_size));
  if (device.orig_attr.max_mr_size != 0 && device.orig_attr.max_mr_size < os::page_size()) {
    return fail(RDM_UNSUPPORTED, "the device's memory regions hold less than a page", why, size);
  }
  if (device.orig_attr.max_mr > 0) {
    // All users of the device share its MRs, so a quarter is left to the program.
    const auto all = static_cast<size_t>(device.orig_attr.max_mr);
    max_count_ = all - all / 4;
  }
  return RDM_OK;
}

void VerbsBackend::limits(rdm_backend_limits* out) const {
  out->max_length = max_length_;
  out->max_count = max_count_;
  out->alignment = 0;
  out->charges = pages_on_demand() ? RDM_CHARGES_NOTHING : RDM_CHARGES_PROCESS;
  out->abilities = pages_on_demand() || safe_on_demand_ ? unsigned{RDM_BACKEND_ON_DEMAND} : 0U;
}

// The rights that the core asks for, limited to those that the program named; other flags as the
// program named them.
unsigned VerbsBackend::access_of(const rdm_backend_request& request) const {
  unsigned access = (request.access & access_ & kRights) | (access_ & ~kRights);
  // Foreign memory is not pinned before it is registered, either.
  if (request.pinned == 0 && request.foreign == 0) access |= IBV_ACCESS_ON_DEMAND;
  const bool huge = request.page_size > os::page_size();
  const bool on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
  access &= ~unsigned{IBV_ACCESS_HUGETLB};
  // The flag matters only to paging, and is wrong for anything but huge pages.
  return on_demand && huge ? access | IBV_ACCESS_HUGETLB : access;
}

// The iova2 call drops the optional flags (relaxed ordering) that the kernel does not know; a
// libibverbs without it knows no optional flags at all.
ibv_mr* VerbsBackend::call(const rdm_backend_request& request, unsigned access) const {
  errno = 0;
  if (library_.reg_mr_iova2 != nullptr) {
    return library_.reg_mr_iova2(pd_, request.base, request.length,
                                 reinterpret_cast<uintptr_t>(request.base), access);
  }
  return library_.reg_mr(pd_, request.base, request.length,
                         static_cast<int>(access & ~IBV_ACCESS_OPTIONAL_RANGE));
}

// The kernel copies what is pinned, and libibverbs knows it.
bool VerbsBackend::never_hides() const {
  return library_.is_fork_initialized != nullptr &&
         library_.is_fork_initialized() == ForkStatus::kUnneeded;
}

// Whether children must see the memory again after libibverbs hid it. Foreign memory that the
// program itself hides stays hidden.
bool VerbsBackend::is_to_be_shown(const rdm_backend_request& request) const {
  return request.foreign == 0 || library_.is_fork_initialized == nullptr ||
         library_.is_fork_initialized() == ForkStatus::kEnabled;
}

// Called when a registration failed with this error. One failed command proves nothing; a device
// that is gone fails every command, including the query for its limits.
void VerbsBackend::look_whether_gone(int error) {
  if (error != EIO && error != ENODEV) return;
  ibv_device_attr attributes{};
  const int status = library_.query_device(pd_->context, &attributes);
  if (status == EIO || status == ENODEV) is_gone_ = true;
}

int VerbsBackend::register_memory(const rdm_backend_request& request, rdm_backend_key* out,
                                  char* why, size_t why_size) {
  if (is_gone_.load(std::memory_order_relaxed)) return explain_verbs_device_gone(why, why_size);
  const bool is_gated = !never_hides() || fork_gate.deregisters();
  if (is_gated && !fork_gate.enter()) return RDM_BACKEND_LATER;
  unsigned access = access_of(request);
  ibv_mr* mr = call(request, access);
  if (mr == nullptr && errno == EINVAL && (access & IBV_ACCESS_HUGETLB) != 0) {
    access &= ~unsigned{IBV_ACCESS_HUGETLB};
    mr = call(request, access);
  }
  const int error = errno;
  if (mr != nullptr && is_to_be_shown(request)) {
    (void)os::inherit_on_fork(request.base, request.length);
  }
  if (is_gated) fork_gate.leave();
  if (mr == nullptr) {
    look_whether_gone(error);
    const VerbsAttempt attempt{request.base, request.length, access,
                               error,        count_.load(),  max_count_};
    return explain_verbs_failure(attempt, why, why_size);
  }
  count_.fetch_add(1);
  *out = {mr->lkey, mr->rkey, mr};
  return RDM_OK;
}

int VerbsBackend::deregister_memory(const rdm_backend_key& key) {
  if (library_.dereg_mr(static_cast<ibv_mr*>(key.handle)) != 0) return RDM_SYSTEM;
  count_.fetch_sub(1);
  return RDM_OK;
}

const rdm_backend VerbsBackend::kOperations = backend_table<VerbsBackend>("verbs");

}  // namespace rdmalloc

using rdmalloc::VerbsBackend;
using rdmalloc::VerbsLibrary;

extern "C" int rdm_domain_open_verbs(ibv_pd* pd, int access, const rdm_domain_options* given,
                                     rdm_domain** out) {
  return rdmalloc::open_domain(given, out, [&](rdm_domain_options& options) {
    const char* missing = nullptr;
    const VerbsLibrary* const library = rdmalloc::find_verbs_library(&missing);
    if (library == nullptr) {
      return rdmalloc::fail(RDM_UNSUPPORTED, missing, options.error, options.error_size);
    }
    VerbsBackend* backend = nullptr;
    int status = VerbsBackend::create(*library, pd, static_cast<unsigned>(access), &backend,
                                      options.error, options.error_size);
    if (status != RDM_OK) return status;
    options.access = static_cast<unsigned>(access) & rdmalloc::kRights;
    status = rdm_domain_open(&VerbsBackend::kOperations, backend, &options, out);
    if (status != RDM_OK) VerbsBackend::destroy(backend);
    return status;
  });
}
