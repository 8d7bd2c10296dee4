#include "regcache/preload/verbs/domains.h"

#include <initializer_list>

#include "allocator/os/clock.h"
#include "regcache/domain/held_keys.h"
#include "regcache/preload/ucx_and_verbs.h"
#include "regcache/preload/verbs/settings.h"

namespace rdmalloc::shim {
namespace {

// Somewhat more than UCX itself pins for a context with its defaults and one network card. Regions
// are larger than the pools in them, and UCX ends the program if it has no room for a pool.
constexpr size_t kUcxOwnPins = size_t{64} << 20;

constexpr uint64_t kFirstRetryNs = 1'000'000;
constexpr uint64_t kLongestRetryNs = 64'000'000'000;
constexpr uint64_t kNever = UINT64_MAX;

// This thread is in DomainTable::open().
constinit thread_local bool opens_here = false;

// Asking again would give the same answer.
bool is_permanent(int status) { return status == RDM_UNSUPPORTED || status == RDM_INVALID; }

// Fills the entry, whose pd may already be published.
void open_domain(ibv_pd* pd, DomainEntry* entry) {
  char why[320] = {};
  rdm_domain_options options{};
  options.size = sizeof options;
  // Do not wait: another thread may be opening a domain, and its driver may need a lock that the
  // caller's library holds. Do not register regions that nobody asks for: a program may have many
  // protection domains and access flags.
  options.flags = entry->flags | RDM_DOMAIN_DO_NOT_WAIT | RDM_DOMAIN_WHEN_ASKED;
  options.error = why;
  options.error_size = sizeof why;
  rdm_domain* domain = nullptr;
  const int status = rdm_domain_open_verbs(pd, static_cast<int>(entry->access), &options, &domain);
  if (status != RDM_OK && status != RDM_BUSY) {
    warn_once(why[0] != '\0' ? why : rdm_strerror(status));
  }
  if (status == RDM_OK && &rdm_shim_serves_ucx != nullptr) rdm_shim_leave_free(domain, kUcxOwnPins);
  if (status == RDM_OK || is_permanent(status)) {
    entry->retry_at.store(kNever, std::memory_order_relaxed);
    entry->domain.store(domain, std::memory_order_release);
    return;
  }
  const uint64_t after = entry->retry_after == 0 ? kFirstRetryNs : 2 * entry->retry_after;
  entry->retry_after = after < kLongestRetryNs ? after : kLongestRetryNs;
  entry->retry_at.store(os::now_ns() + entry->retry_after, std::memory_order_relaxed);
}

bool is_to_be_opened(const DomainEntry& entry) {
  if (entry.domain.load(std::memory_order_acquire) != nullptr) return false;
  const uint64_t retry_at = entry.retry_at.load(std::memory_order_relaxed);
  return retry_at != kNever && os::now_ns() >= retry_at;
}

}  // namespace

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
  if (entry == nullptr || is_to_be_opened(*entry)) entry = open(pd, access, flags);
  const bool is_there = entry != nullptr && !entry->is_lost.load(std::memory_order_relaxed) &&
                        entry->domain.load(std::memory_order_acquire) != nullptr;
  return is_there ? entry : nullptr;
}

// Opens what is still to be opened. Failures are remembered: retrying for each message would cost
// more than the shim can save. Temporary failures are retried at growing intervals.
DomainEntry* DomainTable::open(ibv_pd* pd, unsigned access, unsigned flags) {
  if (is_opening_.exchange(true, std::memory_order_acquire)) return nullptr;
  opens_here = true;
  DomainEntry* entry = look(pd, access, flags);
  if (entry == nullptr) {
    entry = add(pd, access, flags);
  } else if (is_to_be_opened(*entry)) {
    open_domain(pd, entry);
  }
  opens_here = false;
  is_opening_.store(false, std::memory_order_release);
  return entry;
}

// An unused entry, permanently linked into its bucket.
DomainEntry* DomainTable::blank(size_t bucket) {
  DomainEntry* first = buckets_[bucket].load(std::memory_order_relaxed);
  for (DomainEntry* entry = first; entry != nullptr; entry = entry->next) {
    // After a device was closed, memory regions answered for it may still be in use.
    if (entry->pd.load(std::memory_order_acquire) == nullptr && entry->answered == 0 &&
        entry->domain.load(std::memory_order_relaxed) == nullptr) {
      return entry;
    }
  }
  const size_t used = used_.load(std::memory_order_relaxed);
  if (used == kEntries) return nullptr;
  DomainEntry* entry = &entries_[used];
  entry->next = first;
  buckets_[bucket].store(entry, std::memory_order_release);
  used_.store(used + 1, std::memory_order_release);
  return entry;
}

DomainEntry* DomainTable::add(ibv_pd* pd, unsigned access, unsigned flags) {
  DomainEntry* entry = blank(bucket_of(pd));
  if (entry == nullptr) return nullptr;
  entry->is_lost.store(is_lost(pd->context), std::memory_order_relaxed);
  entry->context = pd->context;
  entry->handle = pd->handle;
  entry->access = access;
  entry->flags = flags;
  entry->retry_after = 0;
  entry->retry_at.store(kNever, std::memory_order_relaxed);
  if (!entry->is_lost) open_domain(pd, entry);
  entry->pd.store(pd, std::memory_order_release);
  return entry;
}

// False: one could not be closed and stays.
template <typename Which>
bool DomainTable::close_matching(Which which) {
  bool all = true;
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    DomainEntry& entry = entries_[i];
    const ibv_pd* pd = entry.pd.load(std::memory_order_acquire);
    rdm_domain* const domain = entry.domain.load(std::memory_order_relaxed);
    if ((pd == nullptr && domain == nullptr) || !which(pd, entry)) continue;
    if (domain != nullptr && rdm_domain_close(domain) == RDM_BUSY) {
      all = false;
      continue;
    }
    entry.domain.store(nullptr, std::memory_order_relaxed);
    entry.pd.store(nullptr, std::memory_order_release);
  }
  return all;
}

bool DomainTable::forget(ibv_pd* pd) {
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    if (entries_[i].pd.load(std::memory_order_acquire) == pd && entries_[i].answered != 0) {
      return false;
    }
  }
  return close_matching([pd](const ibv_pd* its, const DomainEntry&) { return its == pd; });
}

void DomainTable::orphan(ibv_pd* pd) {
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    if (entries_[i].pd.load(std::memory_order_acquire) != pd) continue;
    entries_[i].pd.store(nullptr, std::memory_order_release);
    end_orphan(&entries_[i]);
  }
}

// If it cannot be closed now, forget_kin() closes it when the protection domain goes.
void DomainTable::end_orphan(DomainEntry* entry) {
  if (entry->pd.load(std::memory_order_acquire) != nullptr || entry->answered != 0) return;
  (void)close_matching(
      [entry](const ibv_pd*, const DomainEntry& other) { return &other == entry; });
}

bool DomainTable::forget_kin(const ibv_pd* pd) {
  bool any = false;
  const bool all = close_matching([&](const ibv_pd*, const DomainEntry& entry) {
    const bool is_kin = entry.context == pd->context && entry.handle == pd->handle &&
                        entry.answered == 0 &&
                        entry.domain.load(std::memory_order_relaxed) != nullptr;
    any = any || is_kin;
    return is_kin;
  });
  return any && all;
}

size_t DomainTable::list(const ibv_context* device, rdm_domain** out, size_t most,
                         size_t* of_device) const {
  size_t count = 0;
  const size_t used = used_.load(std::memory_order_acquire);
  for (const bool of_the_device : {true, false}) {
    for (size_t i = 0; i < used && count < most; ++i) {
      const DomainEntry& entry = entries_[i];
      rdm_domain* const domain = entry.domain.load(std::memory_order_acquire);
      // The backend of a lost device must not be called.
      if (domain == nullptr || entry.is_lost || (entry.context == device) != of_the_device)
        continue;
      out[count++] = domain;
    }
    if (of_the_device) *of_device = count;
  }
  return count;
}

bool DomainTable::is_lost(const ibv_context* context) const {
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    const DomainEntry& entry = entries_[i];
    if (entry.pd.load(std::memory_order_acquire) != nullptr && entry.context == context &&
        entry.is_lost) {
      return true;
    }
  }
  return false;
}

// Closes nothing: other threads may be looking up, and the device must not be called.
bool DomainTable::lose(const ibv_context* context) {
  bool any = false;
  const size_t used = used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    DomainEntry& entry = entries_[i];
    if (entry.pd.load(std::memory_order_acquire) == nullptr || entry.context != context) continue;
    any = any || !entry.is_lost;
    entry.is_lost = true;
    entry.retry_at.store(kNever, std::memory_order_relaxed);
  }
  return any;
}

void DomainTable::drop(ibv_pd* pd) {
  (void)close_matching([pd](const ibv_pd* its, const DomainEntry&) { return its == pd; });
}

void DomainTable::drop(ibv_context* context) {
  (void)close_matching(
      [context](const ibv_pd*, const DomainEntry& entry) { return entry.context == context; });
}

void DomainTable::after_fork_in_child() {
  is_opening_.store(opens_here, std::memory_order_relaxed);
}

}  // namespace rdmalloc::shim
