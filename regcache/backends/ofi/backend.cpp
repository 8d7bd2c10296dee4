#include "regcache/backends/ofi/backend.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <new>

#include "allocator/failure.h"
#include "allocator/os/memory.h"
#include "include/rdmalloc/ofi.h"
#include "regcache/backend_table.h"
#include "regcache/domain/fork_gate.h"
#include "regcache/domain/ofi_known.h"
#include "regcache/domain/open_domain.h"

namespace rdmalloc {
namespace {

constexpr uint64_t kReads = FI_SEND | FI_WRITE;  // for these the device reads the memory
constexpr uint64_t kWrites = FI_RECV | FI_READ;  // for these it writes the memory
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kKnown = kReads | kWrites | kRemote;

// Registered once and released, to see what the kernel charges. More than one page, because others
// may pin a few at the same time.
size_t trial_bytes() { return 64 * os::page_size(); }

// How many of our keys the program may have taken, although it was told not to use them.
constexpr int kMostKeysTaken = 1024;

}  // namespace

const uint64_t OfiKeys::kFirst = RDM_OFI_FIRST_KEY;
const uint64_t OfiKeys::kFirstShort = RDM_OFI_FIRST_SHORT_KEY;

int OfiBackend::create(fid_domain* domain, uint64_t access, Kind kind, OfiBackend** out, char* why,
                       size_t size, PinnedMemory pinned_memory) {
  if (domain == nullptr || domain->fid.fclass != FI_CLASS_DOMAIN || domain->mr == nullptr) {
    return fail(RDM_INVALID, "there is no libfabric domain: fi_domain gives one", why, size);
  }
  if ((access & ~kKnown) != 0) {
    return fail(RDM_INVALID,
                "access has bits other than FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ "
                "and FI_REMOTE_WRITE",
                why, size);
  }
  if (access == 0) access = kReads | kWrites;
  void* memory = malloc(sizeof(OfiBackend));
  if (memory == nullptr) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  auto* backend = new (memory) OfiBackend(domain, access, pinned_memory);
  fork_gate.register_handlers();
  backend->pins_ = kind == Kind::kPins;
  const int status = kind == Kind::kPins ? int{RDM_OK} : backend->try_memory(why, size);
  if (status != RDM_OK) {
    destroy(backend);
    return status;
  }
  *out = backend;
  return RDM_OK;
}

void OfiBackend::destroy(OfiBackend* backend, bool) {
  backend->~OfiBackend();
  free(backend);
}

unsigned OfiBackend::rights_of(uint64_t access) {
  unsigned rights = 0;
  if (access == 0 || (access & kWrites) != 0) rights |= RDM_LOCAL_WRITE;
  if ((access & FI_REMOTE_READ) != 0) rights |= RDM_REMOTE_READ;
  if ((access & FI_REMOTE_WRITE) != 0) rights |= RDM_REMOTE_WRITE;
  return rights;
}

// A domain does not reveal the fi_info it was opened with, which says what it requires of its
// callers (mr_mode), nor whether its provider pins memory. So we try it with scratch memory, and
// ask the kernel what was pinned.
int OfiBackend::try_memory(char* why, size_t size) {
  void* trial =
      mmap(nullptr, trial_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) return fail(RDM_SYSTEM, "no memory for bookkeeping", why, size);
  const uint64_t before = pinned_memory_();
  fid_mr* mr = nullptr;
  const uint64_t access = access_ | kReads;
  const int error = call(trial, trial_bytes(), access, &mr);
  int status = RDM_OK;
  if (error != 0) {
    status = explain_ofi_failure({trial, trial_bytes(), access, error, before}, why, size);
  } else {
    pins_ = pinned_memory_() >= before + trial_bytes();
    status = check_key(mr, why, size);
    (void)fi_close(&mr->fid);
  }
  munmap(trial, trial_bytes());
  return status;
}

// FI_KEY_NOTAVAIL means either a raw key, for which the program must ask the handle, or a memory
// region that is of no use until it is bound to an endpoint.
int OfiBackend::check_key(fid_mr* mr, char* why, size_t size) const {
  if (fi_mr_key(mr) != FI_KEY_NOTAVAIL) return RDM_OK;
  uint8_t raw_key[256];
  size_t key_size = sizeof raw_key;
  uint64_t base = 0;
  const int error = -fi_mr_raw_attr(mr, &base, raw_key, &key_size, 0);
  if (error == 0 || error == FI_ETOOSMALL) return RDM_OK;
  return fail(RDM_UNSUPPORTED,
              "this libfabric domain registers memory for one endpoint at a time (FI_MR_ENDPOINT), "
              "and a region serves all: open the domain without that mode bit, or register by "
              "yourself",
              why, size);
}

void OfiBackend::limits(rdm_backend_limits* out) const {
  out->charges = pins_ ? RDM_CHARGES_PROCESS : RDM_CHARGES_NOTHING;
}

// The rights that the core asks for, limited to those that the program named. Local reads are
// always allowed.
uint64_t OfiBackend::access_of(const rdm_backend_request& request) const {
  uint64_t access = kReads;
  if ((request.access & RDM_LOCAL_WRITE) != 0) access |= access_ & kWrites;
  if ((request.access & RDM_REMOTE_READ) != 0) access |= access_ & FI_REMOTE_READ;
  if ((request.access & RDM_REMOTE_WRITE) != 0) access |= access_ & FI_REMOTE_WRITE;
  return access;
}

// Returns 0, or the error as a positive FI_ number.
int OfiBackend::call(void* base, size_t length, uint64_t access, fid_mr** out) {
  int error = 0;
  for (int taken = 0; taken < kMostKeysTaken; ++taken) {
    error = -mr_->reg(&domain_->fid, base, length, access, 0, keys_.next(), 0, out, nullptr);
    if (error == FI_EKEYREJECTED && !keys_.is_short()) {
      keys_.shorten();
    } else if (error != FI_ENOKEY) {
      break;
    }
  }
  return error;
}

// Libfabric's cache returns the same handle if the same memory is registered twice; the serial
// number tells the registrations apart. Foreign memory that the program itself hides from children
// stays hidden.
int OfiBackend::register_memory(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                                size_t why_size) {
  if (!fork_gate.enter()) return RDM_BACKEND_LATER;
  const uint64_t access = access_of(request);
  fid_mr* mr = nullptr;
  const int error = call(request.base, request.length, access, &mr);
  if (request.foreign == 0) (void)os::inherit_on_fork(request.base, request.length);
  fork_gate.leave();
  if (error != 0) {
    const OfiAttempt attempt{request.base, request.length, access, error, pinned_memory_()};
    return explain_ofi_failure(attempt, why, why_size);
  }
  *out = {serial_.fetch_add(1, std::memory_order_relaxed), static_cast<uint32_t>(fi_mr_key(mr)),
          mr};
  return RDM_OK;
}

int OfiBackend::deregister_memory(const rdm_backend_key& key) {
  return fi_close(&static_cast<fid_mr*>(key.handle)->fid) == 0 ? RDM_OK : RDM_SYSTEM;
}

const rdm_backend OfiBackend::kOperations = backend_table<OfiBackend>("ofi");

}  // namespace rdmalloc

using rdmalloc::OfiBackend;

namespace {

int open_ofi(fid_domain* domain, uint64_t access, OfiBackend::Kind kind,
             const rdm_domain_options* given, rdm_domain** out) {
  return rdmalloc::open_domain(given, out, [&](rdm_domain_options& options) {
    OfiBackend* backend = nullptr;
    int status =
        OfiBackend::create(domain, access, kind, &backend, options.error, options.error_size);
    if (status != RDM_OK) return status;
    options.access = OfiBackend::rights_of(access);
    status = rdm_domain_open(&OfiBackend::kOperations, backend, &options, out);
    if (status != RDM_OK) OfiBackend::destroy(backend);
    return status;
  });
}

}  // namespace

extern "C" int rdm_domain_open_ofi(fid_domain* domain, uint64_t access,
                                   const rdm_domain_options* given, rdm_domain** out) {
  return open_ofi(domain, access, OfiBackend::Kind::kUnknown, given, out);
}

extern "C" int rdm_shim_open_known_ofi(fid_domain* domain, uint64_t access,
                                       const rdm_domain_options* given, rdm_domain** out) {
  return open_ofi(domain, access, OfiBackend::Kind::kPins, given, out);
}
