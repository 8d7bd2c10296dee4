#include "regcache/preload/verbs_answers.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "allocator/os/copy_on_fork.h"
#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/verbs_domains.h"
#include "regcache/preload/verbs_real.h"
#include "regcache/preload/verbs_settings.h"

namespace rdmalloc::shim {
namespace {

constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kAnswerable = IBV_ACCESS_LOCAL_WRITE | kRemote | IBV_ACCESS_MW_BIND |
                                 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
                                 IBV_ACCESS_OPTIONAL_RANGE;

constinit DomainTable domains;
constinit MrSlab slab;

// Held, shared, while libibverbs registers window memory, which it may hide from children until it
// is shown again: no fork in between. The fork's handlers run before malloc's own, so a driver that
// allocates is not stopped.
constinit pthread_rwlock_t fork_lock = PTHREAD_RWLOCK_INITIALIZER;
// How often this thread holds it: a driver may fork, and must not wait for itself.
constinit thread_local unsigned fork_holds = 0;

void hold_off_forks() {
  pthread_rwlock_rdlock(&fork_lock);
  ++fork_holds;
}

void let_fork() {
  --fork_holds;
  pthread_rwlock_unlock(&fork_lock);
}

// The region of the window that has all of the buffer.
bool find_region(const void* address, size_t length, rdm_region* out) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 0; rdm_region_get(i, out) == RDM_OK; ++i) {
    const uintptr_t offset = at - reinterpret_cast<uintptr_t>(out->base);
    if (offset < out->length) return length <= out->length - offset;
  }
  return false;
}

// The domain that may answer; null: none. A remote key opens all of its region, so it is given for
// exposed regions, or where the user said that the heap may be shared.
DomainEntry* domain_for(const Request& request) {
  const unsigned access = request.access & ~unsigned{IBV_ACCESS_HUGETLB};  // the backend's to add
  unsigned flags = RDM_DOMAIN_PARTIAL;
  if ((access & kRemote) != 0 && settings().share_remote) flags |= RDM_DOMAIN_SHARE_HEAP;
  if ((access & kRemote) != 0 && !settings().share_remote) {
    rdm_region region{};
    // A heap region's key in such a domain has local rights only: it is no answer.
    if (!find_region(request.address, request.length, &region) || !region.exposed) return nullptr;
  }
  return domains.find(request.pd, access, flags);
}

bool is_answerable(const Request& request) {
  return rdm_owns(request.address) && request.length != 0 &&
         request.iova == reinterpret_cast<uintptr_t>(request.address) &&
         (request.access & ~kAnswerable) == 0;
}

// The key of the region that has the buffer, in *out; the domain, or null when there is none. The
// domain then counts one more that was handed out.
DomainEntry* answer(const Request& request, rdm_mr* out) {
  if (!is_answerable(request)) return nullptr;
  const int keep = errno;
  DomainEntry* entry = domain_for(request);
  if (entry != nullptr) {
    entry->answered.fetch_add(1);
    if (rdm_lookup(entry->domain.load(std::memory_order_relaxed), request.address, request.length,
                   out) != RDM_OK) {
      entry->answered.fetch_sub(1);
      entry = nullptr;
    }
  }
  errno = keep;
  return entry;
}

// Where libibverbs keeps ranges from children because the kernel would not copy them (it says so
// after the first registration for good; before rdma-core 35 it does not say), that is what the
// program asked for, and stays.
bool heap_must_be_shown(const RealVerbs& real) {
  static constinit std::atomic<int> known{-1};
  int shown = known.load(std::memory_order_relaxed);
  if (shown < 0) {
    shown = real.is_fork_initialized != nullptr ? real.is_fork_initialized() == IBV_FORK_UNNEEDED
                                                : os::copies_pinned_at_fork();
    known.store(shown, std::memory_order_relaxed);
  }
  return shown != 0;
}

// Lets children have their heap again, in the units that it is mapped in.
void show_to_children(const RealVerbs& real, const void* address, size_t length) {
  rdm_region region{};
  if (!rdm_owns(address) || !heap_must_be_shown(real)) return;
  const int keep = errno;
  if (!find_region(address, 1, &region)) region.page_size = 4096;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address) & ~(region.page_size - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(address) + length + region.page_size - 1) &
                        ~(region.page_size - 1);
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DOFORK);
  errno = keep;
}

ibv_mr* pass_on(const Request& request) {
  const RealVerbs* real = real_verbs();
  if (real == nullptr) return nullptr;
  const bool is_ours = rdm_owns(request.address) != 0;
  if (is_ours) hold_off_forks();
  ibv_mr* mr = real->register_memory(request.pd, request.address, request.length, request.iova,
                                     request.access);
  if (mr != nullptr) show_to_children(*real, request.address, request.length);
  if (is_ours) let_fork();
  return mr;
}

void fill(AnsweredMr* record, const Request& request, DomainEntry* entry, const rdm_mr& key) {
  const auto* shared = static_cast<const ibv_mr*>(key.handle);
  record->mr.context = request.pd->context;
  record->mr.pd = request.pd;
  record->mr.addr = request.address;
  record->mr.length = request.length;
  record->mr.handle = shared->handle;
  record->mr.lkey = key.lkey;
  record->mr.rkey = key.rkey;
  record->access = static_cast<int>(request.access);
  record->entry = entry;
  record->own = nullptr;
}

// Gives up what stands behind a record: its share in a region's key, or a registration of its own.
int let_go(DomainEntry* entry, ibv_mr* own) {
  if (entry != nullptr && entry->answered.fetch_sub(1) == 1) domains.end_orphan(entry);
  if (own == nullptr) return 0;
  const RealVerbs* real = real_verbs();
  return real != nullptr ? real->dereg_mr(own) : ENOSYS;
}

// The same struct with other contents. The region's memory region is never touched; where no region
// answers, the record gets a registration of its own behind it.
int answer_anew(AnsweredMr* record, const Request& request) {
  counters.calls.fetch_add(1, std::memory_order_relaxed);
  DomainEntry* const old_entry = record->entry;
  ibv_mr* const old_own = record->own;
  rdm_mr key{};
  if (DomainEntry* entry = answer(request, &key)) {
    counters.answered.fetch_add(1, std::memory_order_relaxed);
    fill(record, request, entry, key);
  } else {
    counters.passed.fetch_add(1, std::memory_order_relaxed);
    ibv_mr* own = pass_on(request);
    // Nothing has changed: of the error codes, the one that says so.
    if (own == nullptr) return IBV_REREG_MR_ERR_INPUT;
    fill(record, request, nullptr, {request.address, request.length, own->lkey, own->rkey, own});
    record->own = own;
  }
  (void)let_go(old_entry, old_own);
  return 0;
}

}  // namespace

ibv_mr* register_memory(const Call& call, const Request& request) {
  counters.calls.fetch_add(1, std::memory_order_relaxed);
  rdm_mr key{};
  if (DomainEntry* entry = deregisters_here(call) ? answer(request, &key) : nullptr) {
    if (AnsweredMr* record = slab.take()) {
      fill(record, request, entry, key);
      counters.answered.fetch_add(1, std::memory_order_relaxed);
      return &record->mr;
    }
    entry->answered.fetch_sub(1);
  }
  counters.passed.fetch_add(1, std::memory_order_relaxed);
  return pass_on(request);
}

AnsweredMr* find_answered(const ibv_mr* mr) { return slab.find(mr); }

int deregister(AnsweredMr* record) {
  // Deregistered twice: libibverbs would have freed the memory.
  if (!MrSlab::claim(record)) return EINVAL;
  const int status = let_go(record->entry, record->own);
  if (status != 0) {
    record->live = 1;
    return status;
  }
  slab.give_back(record);
  return 0;
}

int reregister(AnsweredMr* record, int flags, const Request& changed) {
  const bool translation = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if (record->live != 1 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (translation && (changed.address == nullptr || changed.length == 0)) ||
      (changed.access != 0 && !access)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  Request request{record->mr.pd, record->mr.addr, record->mr.length, 0,
                  static_cast<unsigned>(record->access)};
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) request.pd = changed.pd;
  if (translation) {
    request.address = changed.address;
    request.length = changed.length;
  }
  if (access) request.access = changed.access;
  request.iova = reinterpret_cast<uintptr_t>(request.address);
  return answer_anew(record, request);
}

int reregister_foreign(ibv_mr* mr, int flags, const Request& changed) {
  const RealVerbs* real = real_verbs();
  if (real == nullptr) return IBV_REREG_MR_ERR_INPUT;
  const bool is_ours =
      (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && rdm_owns(changed.address) != 0;
  if (is_ours) hold_off_forks();
  const int status = real->rereg_mr(mr, flags, changed.pd, changed.address, changed.length,
                                    static_cast<int>(changed.access));
  if (is_ours) show_to_children(*real, changed.address, changed.length);
  if (is_ours) let_fork();
  return status;
}

int deallocate(ibv_pd* pd) {
  const RealVerbs* real = real_verbs();
  if (real == nullptr) return ENOSYS;
  const bool is_free = domains.forget(pd);
  int status = real->dealloc_pd(pd);
  if (!is_free && status == 0) domains.orphan(pd);
  if (is_free && status == EBUSY && domains.forget_kin(pd)) status = real->dealloc_pd(pd);
  return status;
}

int get_event(ibv_context* context, ibv_async_event* event) {
  const RealVerbs* real = real_verbs();
  if (real == nullptr || real->get_async_event == nullptr) return -1;
  const int status = real->get_async_event(context, event);
  if (status == 0 && event->event_type == IBV_EVENT_DEVICE_FATAL && domains.lose(context)) {
    warn_once(
        "the device reported that it is lost (IBV_EVENT_DEVICE_FATAL): close it, and open it anew");
  }
  return status;
}

void drop(ibv_pd* pd) { domains.drop(pd); }
void drop(ibv_context* context) { domains.drop(context); }

void before_fork() {
  if (fork_holds == 0) pthread_rwlock_wrlock(&fork_lock);
}

void after_fork_in_parent() {
  if (fork_holds == 0) pthread_rwlock_unlock(&fork_lock);
}

void after_fork_in_child() {
  // Of the threads that held it or waited for it, this one alone is here.
  fork_lock = PTHREAD_RWLOCK_INITIALIZER;
  for (unsigned i = 0; i < fork_holds; ++i) pthread_rwlock_rdlock(&fork_lock);
  domains.after_fork_in_child();
}

}  // namespace rdmalloc::shim
