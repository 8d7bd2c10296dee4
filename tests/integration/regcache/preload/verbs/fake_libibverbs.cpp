#include "fake_libibverbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace {

struct Registration {
  ibv_mr mr;
  unsigned access;
  uint32_t pd_handle;
  void* pages;  // the device's
};

std::mutex mutex;
std::set<const ibv_context*> contexts;
std::set<const ibv_pd*> domains;
std::set<const ibv_pd*> parents;  // the parent domains among them
std::set<const ibv_context*> fatal;
std::map<uint32_t, Registration*> by_key;  // by lkey; the rkey is a different number
FakeBooks books;
const FakeDevice* device = nullptr;
bool hides = false;
std::atomic<int (*)()> on_register{nullptr};
thread_local bool forks = false;
uint32_t next_key = 1;

// Long enough for forks to happen between hiding a range and the next step.
constexpr useconds_t kSlownessUs = 2000;

constexpr uint32_t kRemoteKey = 0x40000000;

void wrong(const char* what) {
  fprintf(stderr, "libibverbs is used wrongly: %s\n", what);
  _exit(3);
}

void check(const ibv_pd* pd) {
  if (domains.count(pd) == 0) wrong("a protection domain that is not, or not any more");
}

Registration* find(const ibv_mr* mr) {
  for (const auto& [key, registration] : by_key) {
    if (&registration->mr == mr) return registration;
  }
  wrong("a memory region that is not, or not any more");
  return nullptr;
}

// A registration is a system call, wherever the memory lies.
void enter_kernel() { syscall(SYS_getppid); }

void advise(const void* address, size_t length, int advice) {
  const auto begin = reinterpret_cast<uintptr_t>(address) & ~uintptr_t{4095};
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + length;
  madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

// Under the lock. Null if no memory region of that protection domain has the key and covers the
// whole range.
const Registration* covering(const ibv_pd* pd, uint32_t key, const void* address, size_t length) {
  const auto found = by_key.find(key);
  if (found == by_key.end()) return nullptr;
  const Registration& it = *found->second;
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(it.mr.addr);
  const bool has_all = offset < it.mr.length && length <= it.mr.length - offset;
  return it.mr.pd == pd && has_all ? &it : nullptr;
}

int may(const ibv_pd* pd, uint32_t key, const void* address, size_t length, unsigned access) {
  const std::lock_guard<std::mutex> hold(mutex);
  const Registration* const it = covering(pd, key, address, length);
  return it != nullptr && (it->access & access) == access;
}

}  // namespace

extern "C" {

ibv_context* fake_open_device() {
  auto* whole = static_cast<verbs_context*>(calloc(1, sizeof(verbs_context)));
  whole->sz = sizeof *whole;
  whole->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  const std::lock_guard<std::mutex> hold(mutex);
  contexts.insert(&whole->context);
  return &whole->context;
}

int ibv_close_device(ibv_context* context) {
  const std::lock_guard<std::mutex> hold(mutex);
  if (contexts.erase(context) == 0) wrong("a device that is not open");
  for (auto it = domains.begin(); it != domains.end();) {
    it = (*it)->context == context ? domains.erase(it) : std::next(it);
  }
  for (auto it = by_key.begin(); it != by_key.end();) {
    it = it->second->mr.context == context ? by_key.erase(it) : std::next(it);
  }
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* out) {
  *out = {};
  out->max_mr = 1 << 16;
  out->max_mr_size = UINT64_MAX;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* pd = static_cast<ibv_pd*>(calloc(1, sizeof(ibv_pd)));
  pd->context = context;
  const std::lock_guard<std::mutex> hold(mutex);
  if (contexts.count(context) == 0) wrong("a device that is not open");
  static uint32_t next_handle = 1;
  pd->handle = next_handle++;
  domains.insert(pd);
  return pd;
}

// As in the mlx5 driver: both share one kernel object.
ibv_pd* fake_alloc_parent_domain(ibv_pd* over) {
  auto* pd = static_cast<ibv_pd*>(calloc(1, sizeof(ibv_pd)));
  const std::lock_guard<std::mutex> hold(mutex);
  check(over);
  *pd = *over;
  domains.insert(pd);
  parents.insert(pd);
  return pd;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  const std::lock_guard<std::mutex> hold(mutex);
  check(pd);
  const bool is_parent = parents.erase(pd) != 0;
  for (const ibv_pd* parent : parents) {
    if (!is_parent && parent->handle == pd->handle) return EBUSY;
  }
  for (const auto& [key, registration] : by_key) {
    if (!is_parent && registration->pd_handle == pd->handle) return EBUSY;
  }
  domains.erase(pd);
  free(pd);
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  enter_kernel();
  // Drivers allocate while they register.
  auto* made = static_cast<Registration*>(calloc(1, sizeof(Registration)));
  if (forks) {
    forks = false;
    books.driver_child = fork();
  }
  if (int (*const call)() = on_register.exchange(nullptr)) (void)call();
  if (device != nullptr && (made->pages = device->add(address, length)) == nullptr) {
    free(made);
    errno = ENOMEM;
    return nullptr;
  }
  const std::lock_guard<std::mutex> hold(mutex);
  check(pd);
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 ||
      ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
       (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    free(made);
    errno = EINVAL;
    return nullptr;
  }
  if (hides) {
    advise(address, length, MADV_DONTFORK);
    usleep(kSlownessUs);
  }
  const uint32_t key = next_key++;
  made->mr = {pd->context, pd, address, length, key + 7, key, key | kRemoteKey};
  made->access = access;
  made->pd_handle = pd->handle;
  by_key[key] = made;
  ++books.registered;
  books.last_address = address;
  books.last_length = length;
  books.last_access = access;
  (void)iova;
  return &made->mr;
}

// The name has two versions, so neither function may be defined under it.
__asm__(".symver reg_mr_1_1, ibv_reg_mr@@IBVERBS_1.1");
ibv_mr* reg_mr_1_1(ibv_pd* pd, void* address, size_t length, int access) {
  return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<uintptr_t>(address),
                          static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return ibv_reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(access));
}

__asm__(".symver reg_mr_1_0, ibv_reg_mr@IBVERBS_1.0");
ibv_mr* reg_mr_1_0(ibv_pd*, void*, size_t, int) {
  ++books.old_interface;
  errno = ENOSYS;
  return nullptr;
}

int ibv_dereg_mr(ibv_mr* mr) {
  enter_kernel();
  Registration* registration = nullptr;
  {
    const std::lock_guard<std::mutex> hold(mutex);
    registration = find(mr);
    if (hides) advise(mr->addr, mr->length, MADV_DOFORK);
    by_key.erase(mr->lkey);
    ++books.deregistered;
  }
  if (device != nullptr) device->remove(registration->pages);
  free(registration);
  return 0;
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  enter_kernel();
  // As mlx5: the new pages are pinned before the old ones are released.
  void* pages = nullptr;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (device != nullptr && moves && (pages = device->add(address, length)) == nullptr) {
    errno = ENOMEM;
    return IBV_REREG_MR_ERR_CMD;
  }
  {
    const std::lock_guard<std::mutex> hold(mutex);
    Registration* registration = find(mr);
    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
      mr->pd = pd;
      registration->pd_handle = pd->handle;
    }
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
      registration->access = static_cast<unsigned>(access);
    if (moves) {
      if (hides) advise(address, length, MADV_DONTFORK);
      mr->addr = address;
      mr->length = length;
      std::swap(pages, registration->pages);
    }
  }
  if (pages != nullptr) device->remove(pages);
  return 0;
}

// Only this one of all events.
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const std::lock_guard<std::mutex> hold(mutex);
  if (fatal.count(context) == 0) return -1;
  *event = {};
  event->event_type = IBV_EVENT_DEVICE_FATAL;
  return 0;
}

void fake_lose_device(ibv_context* context) {
  const std::lock_guard<std::mutex> hold(mutex);
  fatal.insert(context);
}

// Since rdma-core 35.
#ifndef FAKE_VERBS_OLD
ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
#endif

FakeBooks fake_books() {
  const std::lock_guard<std::mutex> hold(mutex);
  books.live = by_key.size();
  return books;
}

int fake_may_use(const ibv_pd* pd, uint32_t lkey, const void* address, size_t length,
                 unsigned access) {
  return may(pd, lkey, address, length, access);
}

int fake_peer_may(const ibv_pd* pd, uint32_t rkey, const void* address, size_t length,
                  unsigned access) {
  return (rkey & kRemoteKey) != 0 ? may(pd, rkey & ~kRemoteKey, address, length, access) : 0;
}

void fake_set_device(const FakeDevice* it) { device = it; }

void* fake_pages_of(const ibv_pd* pd, uint32_t lkey, const void* address, size_t length) {
  const std::lock_guard<std::mutex> hold(mutex);
  const Registration* const it = covering(pd, lkey, address, length);
  return it != nullptr ? it->pages : nullptr;
}

void fake_hide_from_children() { hides = true; }

void fake_call_in_next_registration(int (*call)()) { on_register = call; }

void fake_fork_in_next_registration() {
  books.driver_child = -1;
  forks = true;
}

}  // extern "C"
