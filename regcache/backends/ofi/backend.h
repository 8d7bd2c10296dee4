// Registers memory with a libfabric domain through fi_mr_reg: rdm_domain_open_ofi.
//
// The fi_ calls for memory regions are inline functions over tables of operations that the objects
// carry, so libfabric is neither linked nor searched for. Its providers allocate and take locks, so
// nothing here is ever called inside malloc.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"
#include "regcache/domain/pinned_memory.h"

namespace rdmalloc {

// Keys for domains whose callers choose them: see include/rdmalloc/ofi.h. Thread-safe.
class OfiKeys {
 public:
  uint64_t next() {
    const uint64_t count = count_.fetch_add(1, std::memory_order_relaxed);
    return is_short() ? kFirstShort + count % kShortCount : kFirst + count % kCount;
  }
  bool is_short() const { return short_.load(std::memory_order_relaxed); }
  // The domain's keys have few bits.
  void shorten() { short_.store(true, std::memory_order_relaxed); }

 private:
  static const uint64_t kFirst;
  static const uint64_t kFirstShort;
  static constexpr uint64_t kCount = uint64_t{1} << 32;
  static constexpr uint64_t kShortCount = uint64_t{1} << 16;

  std::atomic<uint64_t> count_{0};
  std::atomic<bool> short_{false};
};

// The context of one domain: a libfabric domain and the access that its memory regions get. Set up
// by one thread, used by any; holds no lock, because providers lock what they need. In a child of
// fork it may only be destroyed.
class OfiBackend {
 public:
  using PinnedMemory = uint64_t (*)();

  OfiBackend(fid_domain* domain, uint64_t access, PinnedMemory pinned_memory)
      : domain_(domain), mr_(domain->mr), access_(access), pinned_memory_(pinned_memory) {}

  // The operations, with an OfiBackend made by create() as their context.
  static const rdm_backend kOperations;

  // Checks the access, and finds out by trial what the domain does with memory and what the kernel
  // charges for it, unless that is known: see ofi_known.h. Returns RDM_OK and sets *out, or returns
  // an error status with a sentence. Tests pass their own `pinned_memory`.
  enum class Kind : uint8_t { kUnknown, kPins };
  static int create(fid_domain* domain, uint64_t access, Kind kind, OfiBackend** out, char* why,
                    size_t why_size, PinnedMemory pinned_memory = pinned_by_registrations);
  static void destroy(OfiBackend* backend, bool forked = false);

  void limits(rdm_backend_limits* out) const;
  int register_memory(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                      size_t why_size);
  int deregister_memory(const rdm_backend_key& key);

  // The rights of rdmalloc.h that go with `access`, for the core.
  static unsigned rights_of(uint64_t access);

 private:
  uint64_t access_of(const rdm_backend_request& request) const;
  int call(void* base, size_t length, uint64_t access, fid_mr** out);
  int try_memory(char* why, size_t why_size);
  int check_key(fid_mr* mr, char* why, size_t why_size) const;

  fid_domain* const domain_;
  // The table as it was when the domain was opened: a shim that interposes the program's calls
  // (regcache/preload/ofi/domains.cpp) must not see this backend's.
  fi_ops_mr* const mr_;
  const uint64_t access_;
  const PinnedMemory pinned_memory_;
  bool pins_ = false;  // the provider pins what is registered, which the kernel charges
  OfiKeys keys_;
  std::atomic<uint32_t> serial_{0};
};

// What was tried, for explain_ofi_failure.
struct OfiAttempt {
  const void* base;
  size_t length;    // bytes
  uint64_t access;  // FI_
  int error;        // FI_, positive
  uint64_t pinned;  // bytes that registrations had pinned
};

// Explains why a registration failed, by cause, and what to do. Returns the status for the caller.
int explain_ofi_failure(const OfiAttempt& attempt, char* why, size_t why_size);

}  // namespace rdmalloc
