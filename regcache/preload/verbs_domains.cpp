#include "regcache/preload/verbs_domains.h"

#include "regcache/posix_lock.h"
#include "regcache/preload/verbs_settings.h"

namespace rdmalloc::shim {

DomainEntry* DomainTable::look(const ibv_pd* pd, unsigned access, unsigned flags) const {
  DomainEntry* entry = buckets_[bucket_of(pd)].load(std::memory_order_acquire);
  for (; entry != nullptr; entry = entry->next) {
    if (entry->pd.load(std::memory_order_acquire) == pd && entry->access == access &&
        entry->flags == flags) {
      return entry;
    }
  }
  return nullptr;
}

DomainEntry* DomainTable::find(ibv_pd* pd, unsigned access, unsigned flags) {
  DomainEntry* entry = look(pd, access, flags);
  if (entry == nullptr) {
    PosixLock hold(&mutex_);
    entry = look(pd, access, flags);
    if (entry == nullptr) entry = add(pd, access, flags);
  }
  return entry != nullptr && entry->domain != nullptr ? entry : nullptr;
}

// One that is not in use, linked into its bucket for good.
DomainEntry* DomainTable::blank(size_t bucket) {
  DomainEntry* first = buckets_[bucket].load(std::memory_order_relaxed);
  for (DomainEntry* entry = first; entry != nullptr; entry = entry->next) {
    // After a device was closed, memory regions that it had answered may still be out.
    if (entry->pd.load(std::memory_order_relaxed) == nullptr && entry->answered == 0) return entry;
  }
  if (used_ == kEntries) return nullptr;
  DomainEntry* entry = &entries_[used_++];
  entry->next = first;
  buckets_[bucket].store(entry, std::memory_order_release);
  return entry;
}

// What could not be opened is remembered too: a call for each message would cost more than it may
// ever give.
DomainEntry* DomainTable::add(ibv_pd* pd, unsigned access, unsigned flags) {
  DomainEntry* entry = blank(bucket_of(pd));
  if (entry == nullptr) return nullptr;
  char why[320] = {};
  rdm_domain_options options{};
  options.size = sizeof options;
  options.flags = flags;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  const int status = rdm_domain_open_verbs(pd, static_cast<int>(access), &options, &domain);
  if (status != RDM_OK) warn_once(why[0] != '\0' ? why : rdm_strerror(status));
  entry->context = pd->context;
  entry->access = access;
  entry->flags = flags;
  entry->domain = domain;
  entry->pd.store(pd, std::memory_order_release);
  return entry;
}

// Under the lock.
template <typename Which>
void DomainTable::close_those(Which which) {
  for (size_t i = 0; i < used_; ++i) {
    DomainEntry& entry = entries_[i];
    const ibv_pd* pd = entry.pd.load(std::memory_order_relaxed);
    if (pd == nullptr || !which(pd, entry)) continue;
    if (entry.domain != nullptr) (void)rdm_domain_close(entry.domain);
    entry.domain = nullptr;
    entry.pd.store(nullptr, std::memory_order_release);
  }
}

bool DomainTable::forget(ibv_pd* pd) {
  PosixLock hold(&mutex_);
  for (size_t i = 0; i < used_; ++i) {
    if (entries_[i].pd.load(std::memory_order_relaxed) == pd && entries_[i].answered != 0) {
      return false;
    }
  }
  close_those([pd](const ibv_pd* its, const DomainEntry&) { return its == pd; });
  return true;
}

void DomainTable::drop(ibv_pd* pd) {
  PosixLock hold(&mutex_);
  close_those([pd](const ibv_pd* its, const DomainEntry&) { return its == pd; });
}

void DomainTable::drop(ibv_context* context) {
  PosixLock hold(&mutex_);
  close_those(
      [context](const ibv_pd*, const DomainEntry& entry) { return entry.context == context; });
}

}  // namespace rdmalloc::shim
