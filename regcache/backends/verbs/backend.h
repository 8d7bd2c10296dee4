// Registers memory with an RDMA device through libibverbs: rdm_domain_open_verbs.
//
// Drivers allocate and take locks, so nothing here is ever called inside malloc.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"
#include "regcache/backends/verbs/library.h"

namespace rdmalloc {

// Returns RDM_UNSUPPORTED and a sentence if forks and a registered heap do not go together. May
// register a page of its own to find out.
int check_verbs_fork(const VerbsLibrary& library, ibv_pd* pd, char* why, size_t why_size);

// The context of one domain: a protection domain and the access that its memory regions get. Set
// up by one thread, used by any; holds no lock. In a child of fork it may only be destroyed.
class VerbsBackend {
 public:
  VerbsBackend(const VerbsLibrary& library, ibv_pd* pd, unsigned access)
      : library_(library), pd_(pd), access_(access) {}

  // The operations, with a VerbsBackend made by create() as their context.
  static const rdm_backend kOperations;

  // Checks the access and the process's fork state, and asks the device for its limits. Returns
  // RDM_OK and sets *out, or returns an error status with a sentence.
  static int create(const VerbsLibrary& library, ibv_pd* pd, unsigned access, VerbsBackend** out,
                    char* why, size_t why_size);
  static void destroy(VerbsBackend* backend, bool forked = false);

  void limits(rdm_backend_limits* out) const;
  int register_memory(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                      size_t why_size);
  int deregister_memory(const rdm_backend_key& key);

 private:
  int query(char* why, size_t why_size);
  bool pages_on_demand() const { return (access_ & IBV_ACCESS_ON_DEMAND) != 0; }
  unsigned access_of(const rdm_backend_request& request) const;
  ibv_mr* call(const rdm_backend_request& request, unsigned access) const;
  void look_whether_gone(int error);
  bool never_hides() const;
  bool is_to_be_shown(const rdm_backend_request& request) const;

  const VerbsLibrary library_;
  ibv_pd* const pd_;
  const unsigned access_;
  size_t max_length_ = 0;
  size_t max_count_ = 0;
  bool device_pages_on_demand_ = false;  // where the program asks for it
  bool safe_on_demand_ = false;          // for anything that a program may do with the memory
  std::atomic<size_t> count_{0};         // memory regions registered now
  std::atomic<bool> is_gone_{false};     // the device, permanently: it is not called to register
};

// What was tried, for explain_verbs_failure.
struct VerbsAttempt {
  const void* base;
  size_t length;
  unsigned access;
  int error;         // errno
  size_t count;      // memory regions that the domain has
  size_t max_count;  // and may have, 0: no limit
};

// Explains why a registration failed, by cause, and what to do. Returns the status for the caller.
int explain_verbs_failure(const VerbsAttempt& attempt, char* why, size_t why_size);
int explain_verbs_device_gone(char* why, size_t why_size);

}  // namespace rdmalloc
