// The domains that the shim opened: for each protection domain that somebody registered window
// memory with, one for local rights, and one for each set of rights that peers were to have.
//
// No locks: who registers may be inside of a library's driver, which came here by name and under
// locks of its own, and so nobody waits here for anybody. While a thread opens a domain, another
// that would open one is told that there is none. Entries are never freed but used again for the
// same bucket, so that a reader may look at one that is being given up; a program that deallocates
// a protection domain while it registers with it gets what it deserves, as from libibverbs.
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
  uint32_t handle = 0;  // the kernel's protection domain: a parent's is its own
  unsigned access = 0;
  unsigned flags = 0;                        // RDM_DOMAIN_*
  std::atomic<rdm_domain*> domain{nullptr};  // null: could not be opened ...
  std::atomic<uint64_t> retry_at{0};         // ... and from then on may be tried: os::now_ns()
  uint64_t retry_after = 0;                  // how long that was; by who opens
  std::atomic<uint64_t> answered{0};         // memory regions handed out and not yet deregistered
  std::atomic<bool> is_lost{false};          // the device is: what it has answers no more
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
  // registered, or this thread is inside of a driver, where none can be closed.
  bool forget(ibv_pd* pd);

  // It was deallocated with memory regions out, which only a parent domain is: they are of the
  // protection domain that it was made over. Its domains stay until the last is deregistered.
  void orphan(ibv_pd* pd);
  // That was the last one: of an entry that is nobody's now.
  void end_orphan(DomainEntry* entry);

  // Closes all that nobody's memory regions keep of a protection domain of the kernel's, by
  // whatever parent domains: such as were deallocated past the shim. False: there was nothing to
  // close.
  bool forget_kin(const ibv_pd* pd);

  // Nothing is answered for the device any more, nor opened. False: nothing was.
  bool lose(const ibv_context* context);

  // The domains that are open, those of the device first; how many they are, and of the device.
  // One may be closed, or be used by somebody else, as soon as it is looked at.
  size_t list(const ibv_context* device, rdm_domain** out, size_t most, size_t* of_device) const;

  // Closes them whatever is still registered: the protection domain, or all of a device's, is
  // going.
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
  bool close_those(Which which);

  std::atomic<bool> is_opening_{false};  // some thread, which alone adds entries
  std::atomic<DomainEntry*> buckets_[kBuckets] = {};
  DomainEntry entries_[kEntries];
  std::atomic<size_t> used_{0};
};

}  // namespace rdmalloc::shim
