#include "regcache/preload/verbs/answers.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "allocator/os/copy_on_fork.h"
#include "allocator/os/page_size.h"
#include "include/rdmalloc/rdmalloc.h"
#include "regcache/domain/fork_wait.h"
#include "regcache/domain/held_keys.h"
#include "regcache/preload/ucx_and_verbs.h"
#include "regcache/preload/verbs/domains.h"
#include "regcache/preload/verbs/real.h"
#include "regcache/preload/verbs/room.h"
#include "regcache/preload/verbs/settings.h"

namespace rdmalloc::shim {
namespace {

constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kAnswerable = IBV_ACCESS_LOCAL_WRITE | kRemote | IBV_ACCESS_MW_BIND |
                                 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
                                 IBV_ACCESS_OPTIONAL_RANGE;

constinit DomainTable domains;
constinit MrSlab slab;

// Held shared while libibverbs registers window memory and may hide it from children until we show
// it again: no fork may happen in between. Our fork handlers run before malloc's own, so a
// driver that allocates is not blocked.
constinit pthread_rwlock_t fork_lock = PTHREAD_RWLOCK_INITIALIZER;
// This thread forks, and holds the lock alone.
constinit thread_local bool holds_registrations_off = false;
// How often this thread holds the lock: a driver may fork, and must not wait for itself.
constinit thread_local unsigned fork_holds = 0;

void hold_off_forks() {
  pthread_rwlock_rdlock(&fork_lock);
  ++fork_holds;
}

void let_fork() {
  --fork_holds;
  pthread_rwlock_unlock(&fork_lock);
}

// Finds the window's region that contains the whole buffer.
bool find_region(const void* address, size_t length, rdm_region* out) {
  if (rdm_region_of(address, out) != RDM_OK) return false;
  const size_t offset =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(out->base);
  return length <= out->length - offset;
}

// The access flags of a domain for the request, chosen so that few domains answer all requests. The
// right to write locally is added: it gives nothing to peers. Remote rights stay as requested: a
// key for remote reads must not permit remote writes. Flags that change how the device works
// (relaxed ordering, paging on demand, windows) also stay: some devices lack them, and dropping
// them costs speed. The backend adds the flag for huge pages.
unsigned domain_access(const Request& request) {
  return (request.access & ~unsigned{IBV_ACCESS_HUGETLB}) | IBV_ACCESS_LOCAL_WRITE;
}

// The domain that may answer, or null. A remote key opens its whole region, so it is given only for
// exposed regions, or if the user allowed sharing the heap: with all, or by UCX.
DomainEntry* domain_for(const Request& request) {
  const unsigned access = domain_access(request);
  const bool shares = settings().share_remote || request.is_of_ucx;
  unsigned flags = RDM_DOMAIN_PARTIAL;
  if ((access & kRemote) != 0 && shares) flags |= RDM_DOMAIN_SHARE_HEAP;
  if ((access & kRemote) != 0 && !shares) {
    rdm_region region{};
    // In such a domain, a heap region's key has only local rights, so it is no answer.
    if (!find_region(request.address, request.length, &region) || !region.exposed) return nullptr;
  }
  return domains.find(request.pd, access, flags);
}

// Peers may write but the program may not: libibverbs refuses that.
bool is_contradictory(unsigned access) {
  constexpr unsigned kWrites = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  return (access & kWrites) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0;
}

bool is_answerable(const Request& request) {
  return !is_contradictory(request.access) && rdm_owns(request.address) && request.length != 0 &&
         request.iova == reinterpret_cast<uintptr_t>(request.address) &&
         (request.access & ~kAnswerable) == 0;
}

// The key of the region that contains the buffer, if a domain answers: it then counts one more
// answered region, until let_go().
struct Answer {
  DomainEntry* entry = nullptr;
  uint32_t use = 0;
  rdm_mr key{};
};

Answer answer(const Request& request) {
  Answer given;
  if (!is_answerable(request)) return given;
  const int keep = errno;
  DomainEntry* const entry = domain_for(request);
  if (entry != nullptr) {
    entry->answered.fetch_add(1);
    if (rdm_shim_hold(entry->domain.load(std::memory_order_relaxed), request.address,
                      request.length, &given.key, &given.use) == RDM_OK) {
      given.entry = entry;
    } else {
      entry->answered.fetch_sub(1);
    }
  }
  errno = keep;
  return given;
}

// If libibverbs hides ranges from children because the kernel would not copy them, the program
// asked for that, and they stay hidden. libibverbs says so after the first registration, once and
// for all; before rdma-core 35 it cannot say.
bool heap_must_be_shown(const RealVerbs& real) {
  static constinit std::atomic<int> known{-1};
  int shown = known.load(std::memory_order_relaxed);
  if (shown < 0) {
    shown = real.is_fork_initialized != nullptr
                ? real.is_fork_initialized() == ForkStatus::kUnneeded
                : os::copies_pinned_at_fork();
    known.store(shown, std::memory_order_relaxed);
  }
  return shown != 0;
}

// Makes the heap visible to children again, in the units that it is mapped in.
void show_to_children(const RealVerbs& real, const void* address, size_t length) {
  rdm_region region{};
  if (!rdm_owns(address) || !heap_must_be_shown(real)) return;
  const int keep = errno;
  if (!find_region(address, 1, &region)) region.page_size = rdmalloc::os::page_size();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address) & ~(region.page_size - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(address) + length + region.page_size - 1) &
                        ~(region.page_size - 1);
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DOFORK);
  errno = keep;
}

// Only before rdma-core 35: later ones hide nothing where the kernel copies, and elsewhere what
// they hide stays hidden.
bool may_hide_for_a_while(const RealVerbs& real, const void* address) {
  return real.is_fork_initialized == nullptr && rdm_owns(address) != 0;
}

ibv_mr* register_as_it_came(const RealVerbs& real, const Request& request) {
  const bool may_hide = may_hide_for_a_while(real, request.address);
  if (may_hide) hold_off_forks();
  ibv_mr* mr = real.register_memory(request.pd, request.address, request.length, request.iova,
                                    request.access);
  if (mr != nullptr) show_to_children(real, request.address, request.length);
  if (may_hide) let_fork();
  return mr;
}

int change_as_it_came(const RealVerbs& real, ibv_mr* mr, int flags, const Request& changed) {
  const bool is_moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool may_hide = is_moved && may_hide_for_a_while(real, changed.address);
  if (may_hide) hold_off_forks();
  const int status = real.rereg_mr(mr, flags, changed.pd, changed.address, changed.length,
                                   static_cast<int>(changed.access));
  if (is_moved) show_to_children(real, changed.address, changed.length);
  if (may_hide) let_fork();
  return status;
}

// The device refused for lack of room. Other statuses say that libibverbs did not ask it, or that
// the change was made.
bool lacks_room(int status) {
  return errno == ENOMEM &&
         (status == IBV_REREG_MR_ERR_CMD || status == IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW);
}

// If room is lacking, gives back, once, what we registered and nobody uses: without us it would not
// be there.
ibv_mr* pass_on(const Request& request) {
  const RealVerbs* real = real_verbs();
  if (real == nullptr) return nullptr;
  const uint64_t made = Room::times_made();
  ibv_mr* mr = register_as_it_came(*real, request);
  if (mr != nullptr || errno != ENOMEM) return mr;
  const Room room(domains, request.pd->context, request.length, made);
  if (!room.is_made()) {
    errno = ENOMEM;
    return nullptr;
  }
  mr = register_as_it_came(*real, request);
  if (mr != nullptr) Room::note_more();
  if (mr == nullptr && errno == ENOMEM) room.was_in_vain();
  return mr;
}

void fill(AnsweredMr* record, const Request& request, const Answer& given) {
  const auto* shared = static_cast<const ibv_mr*>(given.key.handle);
  record->mr.context = request.pd->context;
  record->mr.pd = request.pd;
  record->mr.addr = request.address;
  record->mr.length = request.length;
  record->mr.handle = shared->handle;
  record->mr.lkey = given.key.lkey;
  record->mr.rkey = given.key.rkey;
  record->access = static_cast<int>(request.access);
  record->entry = given.entry;
  record->use = given.use;
  record->own = nullptr;
}

// Gives up what is behind a record: its share in a region's key, or its own registration. If the
// device was closed, the closed domain's entry has been waiting for this.
int let_go(DomainEntry* entry, uint32_t use, ibv_mr* own) {
  if (entry != nullptr) {
    rdm_domain* const domain = entry->domain.load(std::memory_order_relaxed);
    if (domain != nullptr) rdm_shim_let_go(domain, use);
    if (entry->answered.fetch_sub(1) == 1) domains.end_orphan(entry);
  }
  return own != nullptr ? deregister(own) : 0;
}

// Fills the same struct with new contents. Never changes the region's memory region; if no region
// answers, the record gets its own registration.
int answer_anew(AnsweredMr* record, const Request& request) {
  counters.calls.fetch_add(1, std::memory_order_relaxed);
  DomainEntry* const old_entry = record->entry;
  const uint32_t old_use = record->use;
  ibv_mr* const old_own = record->own;
  if (const Answer given = answer(request); given.entry != nullptr) {
    counters.answered.fetch_add(1, std::memory_order_relaxed);
    fill(record, request, given);
  } else {
    counters.passed.fetch_add(1, std::memory_order_relaxed);
    ibv_mr* own = pass_on(request);
    // Of the error codes, this one says that nothing has changed.
    if (own == nullptr) return IBV_REREG_MR_ERR_INPUT;
    fill(record, request,
         {nullptr, 0, {request.address, request.length, own->lkey, own->rkey, own}});
    record->own = own;
  }
  (void)let_go(old_entry, old_use, old_own);
  return 0;
}

}  // namespace

ibv_mr* register_memory(const Call& call, const Request& given_request) {
  counters.calls.fetch_add(1, std::memory_order_relaxed);
  Request request = given_request;
  request.is_of_ucx = &rdm_shim_serves_ucx != nullptr && is_of_ucx(call);
  const Answer given = deregisters_here(call) ? answer(request) : Answer{};
  if (given.entry != nullptr) {
    if (AnsweredMr* record = slab.take()) {
      fill(record, request, given);
      counters.answered.fetch_add(1, std::memory_order_relaxed);
      return &record->mr;
    }
    (void)let_go(given.entry, given.use, nullptr);
  }
  counters.passed.fetch_add(1, std::memory_order_relaxed);
  return pass_on(request);
}

AnsweredMr* find_answered(const ibv_mr* mr) { return slab.find(mr); }

int deregister(AnsweredMr* record) {
  // A second deregistration: libibverbs would have freed the memory.
  if (!MrSlab::claim(record)) return EINVAL;
  const int status = let_go(record->entry, record->use, record->own);
  if (status != 0) {
    record->live = 1;
    return status;
  }
  slab.give_back(record);
  return 0;
}

int deregister(ibv_mr* mr) {
  const RealVerbs* real = real_verbs();
  if (real == nullptr) return ENOSYS;
  const int status = real->dereg_mr(mr);
  if (status == 0) Room::note_more();
  return status;
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

// The same second try as in pass_on(), where a memory region outlives the failure to change it:
// before 5.11 a driver may already have destroyed it, and the kernel may not survive the second
// try. Kernels that copy pinned pages are newer. If the second try fails for another reason, the
// program is told of the first one.
int reregister_foreign(ibv_mr* mr, int flags, const Request& changed) {
  const RealVerbs* real = real_verbs();
  if (real == nullptr) return IBV_REREG_MR_ERR_INPUT;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const uint64_t made = Room::times_made();
  const int status = change_as_it_came(*real, mr, flags, changed);
  if (status == 0 && moves) Room::note_more();  // it may be shorter now
  if (!lacks_room(status)) return status;
  if (!os::copies_pinned_at_fork()) {
    errno = ENOMEM;
    return status;
  }
  const Room room(domains, mr->context, moves ? changed.length : mr->length, made);
  const int again = room.is_made() ? change_as_it_came(*real, mr, flags, changed) : status;
  if (again == 0) {
    Room::note_more();
    return 0;
  }
  if (room.is_made() && lacks_room(again)) room.was_in_vain();
  errno = ENOMEM;
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
  holds_registrations_off =
      fork_holds == 0 && wait_before_fork([] { return pthread_rwlock_trywrlock(&fork_lock) == 0; });
}

void after_fork_in_parent() {
  if (holds_registrations_off) pthread_rwlock_unlock(&fork_lock);
}

void after_fork_in_child() {
  // Of the threads that held it or waited for it, only this one exists here.
  fork_lock = PTHREAD_RWLOCK_INITIALIZER;
  for (unsigned i = 0; i < fork_holds; ++i) pthread_rwlock_rdlock(&fork_lock);
  domains.after_fork_in_child();
}

}  // namespace rdmalloc::shim
