// The domains that the shim opened: one for each protection domain and access that somebody
// registered window memory with.
//
// find() takes no lock once its domain is open. Entries are never freed but used again for the same
// bucket, so that a reader may look at one that is being given up; a program that deallocates a
// protection domain while it registers with it gets what it deserves, as from libibverbs.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc::shim {

struct DomainEntry {
  std::atomic<ibv_pd*> pd{nullptr};  // null: not in use; the rest is set before it
  ibv_context* context = nullptr;
  unsigned access = 0;
  unsigned flags = 0;                 // RDM_DOMAIN_*
  rdm_domain* domain = nullptr;       // null: could not be opened
  std::atomic<uint64_t> answered{0};  // memory regions handed out and not yet deregistered
  DomainEntry* next = nullptr;        // in the bucket
};

class DomainTable {
 public:
  constexpr DomainTable() = default;
  DomainTable(const DomainTable&) = delete;
  DomainTable& operator=(const DomainTable&) = delete;

  // Opens the domain at the first call. Null when there is none: not supported, or too many.
  DomainEntry* find(ibv_pd* pd, unsigned access, unsigned flags);

  // Closes the protection domain's domains. False, and nothing done: memory regions that were
  // handed out are still registered.
  bool forget(ibv_pd* pd);

  // Closes them whatever is still registered: the protection domain, or all of a device's, is
  // going.
  void drop(ibv_pd* pd);
  void drop(ibv_context* context);

  void before_fork() { pthread_mutex_lock(&mutex_); }
  void after_fork_in_parent() { pthread_mutex_unlock(&mutex_); }
  // A thread that forked inside add() unlocks it once more, which fails and does no harm.
  void after_fork_in_child() { mutex_ = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

 private:
  static constexpr size_t kEntries = 512;
  static constexpr size_t kBuckets = 64;

  static size_t bucket_of(const ibv_pd* pd) {
    const auto bits = reinterpret_cast<uintptr_t>(pd);
    return (bits >> 4 ^ bits >> 10 ^ bits >> 16) % kBuckets;
  }
  DomainEntry* look(const ibv_pd* pd, unsigned access, unsigned flags) const;
  DomainEntry* add(ibv_pd* pd, unsigned access, unsigned flags);
  DomainEntry* blank(size_t bucket);
  template <typename Which>
  void close_those(Which which);

  // Recursive for the fork handlers: a driver may fork while a domain is opened.
  pthread_mutex_t mutex_ = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  std::atomic<DomainEntry*> buckets_[kBuckets] = {};
  DomainEntry entries_[kEntries];
  size_t used_ = 0;
};

}  // namespace rdmalloc::shim
