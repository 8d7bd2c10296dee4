// The domains that the shim opened: for each protection domain that somebody registered window
// memory with, one for local rights, and one for each set of rights that peers were to have.
//
// There are no locks, and no thread waits for another: a caller may be a library's driver, which
// came here by name while holding locks of its own. While a thread opens a domain, another that
// would open one is told that there is none. Entries are never freed but reused for the same
// bucket, so that a reader may look at one that is being given up. Deallocating a protection domain
// while registering with it is an error of the program, as with libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc::shim {

struct DomainEntry {
  std::atomic<ibv_pd*> pd{
      nullptr};  // null: not in use; what follows, to `domain`, is set before it
  ibv_context* context = nullptr;
  uint32_t handle = 0;  // the kernel's protection domain, which a parent domain shares
  unsigned access = 0;
  unsigned flags = 0;                        // RDM_DOMAIN_*
  std::atomic<rdm_domain*> domain{nullptr};  // null: could not be opened ...
  std::atomic<uint64_t> retry_at{0};         // ... and from then on may be tried: os::now_ns()
  uint64_t retry_after = 0;                  // how long that was; written by the opener
  std::atomic<uint64_t> answered{0};         // memory regions handed out and not yet deregistered
  std::atomic<bool> is_lost{false};          // the device is: nothing is answered for it
  DomainEntry* next = nullptr;               // in the bucket
};

class DomainTable {
 public:
  constexpr DomainTable() = default;
  DomainTable(const DomainTable&) = delete;
  DomainTable& operator=(const DomainTable&) = delete;

  // Opens the domain at the first call. Null when there is none: not supported, too many, or not
  // now, and then a later call tries again. `access` and `flags` as rdm_domain_open_verbs has them.
  DomainEntry* find(ibv_pd* pd, unsigned access, unsigned flags);

  // Closes the protection domain's domains. False: memory regions that were handed out are still
  // registered, or this thread is inside a driver, where no domain can be closed.
  bool forget(ibv_pd* pd);

  // The protection domain was deallocated with memory regions still registered. Only a parent
  // domain can be: the memory regions belong to the protection domain that it was made over. Its
  // domains stay until the last memory region is deregistered.
  void orphan(ibv_pd* pd);
  // The last memory region of an orphaned entry was deregistered.
  void end_orphan(DomainEntry* entry);

  // Closes the domains that no memory region keeps open and that belong to the same protection
  // domain of the kernel, through any parent domain: one may have been deallocated without the
  // shim's knowledge. False: there was nothing to close, or something stays open.
  bool forget_kin(const ibv_pd* pd);

  // From now on nothing is answered or opened for the device. False: nothing was before.
  bool lose(const ibv_context* context);

  // Lists the open domains, those of the device first. Returns how many there are, and in
  // `of_device` how many of the device. Each may be closed or reused as soon as it was looked at.
  size_t list(const ibv_context* device, rdm_domain** out, size_t most, size_t* of_device) const;

  // Closes the domains even if memory regions are still registered: the protection domain, or the
  // whole device, is going.
  void drop(ibv_pd* pd);
  void drop(ibv_context* context);

  // A driver may have forked while this thread opens a domain.
  void after_fork_in_child();

 private:
  static constexpr size_t kEntries = 512;
  static constexpr size_t kBuckets = 64;

  static size_t bucket_of(const ibv_pd* pd) {
    const auto bits = reinterpret_cast<uintptr_t>(pd);
    return (bits >> 4 ^ bits >> 10 ^ bits >> 16) % kBuckets;
  }
  DomainEntry* look(const ibv_pd* pd, unsigned access, unsigned flags) const;
  DomainEntry* open(ibv_pd* pd, unsigned access, unsigned flags);
  DomainEntry* add(ibv_pd* pd, unsigned access, unsigned flags);
  DomainEntry* blank(size_t bucket);
  bool is_lost(const ibv_context* context) const;
  template <typename Which>
  bool close_matching(Which which);

  std::atomic<bool> is_opening_{false};  // some thread, which alone adds entries
  std::atomic<DomainEntry*> buckets_[kBuckets] = {};
  DomainEntry entries_[kEntries];
  std::atomic<size_t> used_{0};
};

}  // namespace rdmalloc::shim
