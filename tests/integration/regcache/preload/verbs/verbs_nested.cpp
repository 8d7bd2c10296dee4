// A library that registers through libibverbs by name, as UCX and libfabric do: its domain's
// registrations enter the shim from inside the library's driver, while other threads enter it from
// the program. No cycle of waiting may arise. Exit status 0: as promised, 1: not, killed by
// SIGALRM: a deadlock.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "fake_libibverbs.h"
#include "include/rdmalloc/backend.h"
#include "include/rdmalloc/rdmalloc.h"
#include "tests/integration/regcache/preload/verbs/verbs_case.h"

namespace {

using verbs::promise;

constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
// For one round, on a busy machine.
constexpr unsigned kWatchdogS = 30;
constexpr int kRounds = 50;
constexpr size_t kLength = 5000;
// Enough turns for another thread to reach a lock and wait.
constexpr int kTurns = 20;

template <typename Function>
Function* of_library(const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  promise(found != nullptr, "the library is there");
  return found;
}

void let_others_run() {
  for (int i = 0; i < kTurns; ++i) sched_yield();
}

// The library: its driver registers with its own protection domain, under its own lock.
struct Driver {
  ibv_pd* pd = nullptr;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<int> entered{0};
  std::atomic<bool> is_other_near{true};  // a registration waits until then
};

int tell_limits(void*, rdm_backend_limits*) { return RDM_OK; }

int register_by_name(void* context, const rdm_backend_request* request, rdm_backend_key* out, char*,
                     size_t) {
  auto* const driver = static_cast<Driver*>(context);
  driver->entered.fetch_add(1);
  while (!driver->is_other_near) sched_yield();
  let_others_run();
  pthread_mutex_lock(&driver->lock);
  ibv_mr* const mr = ibv_reg_mr(driver->pd, request->base, request->length, kLocal);
  pthread_mutex_unlock(&driver->lock);
  if (mr == nullptr) return RDM_SYSTEM;
  *out = {mr->lkey, mr->rkey, mr};
  return RDM_OK;
}

int deregister(void*, const rdm_backend_key* key) {
  return ibv_dereg_mr(static_cast<ibv_mr*>(key->handle)) == 0 ? RDM_OK : RDM_SYSTEM;
}

rdm_domain* open_over(Driver* driver) {
  static auto* const open = of_library<decltype(rdm_domain_open)>("rdm_domain_open");
  const rdm_backend backend{sizeof(rdm_backend), "nested",   tell_limits,
                            register_by_name,    deregister, nullptr};
  rdm_domain* domain = nullptr;
  promise(open(&backend, driver, nullptr, &domain) == RDM_OK, "the library's domain is opened");
  return domain;
}

void close_of(Driver* driver, rdm_domain* domain) {
  static auto* const close = of_library<decltype(rdm_domain_close)>("rdm_domain_close");
  promise(close(domain) == RDM_OK, "the library's domain is closed");
  promise(ibv_dealloc_pd(driver->pd) == 0, "... and its protection domain with it");
}

void register_once(ibv_pd* pd, void* buffer) {
  ibv_mr* const mr = ibv_reg_mr(pd, buffer, kLength, kLocal);
  promise(mr != nullptr && fake_may_use(pd, mr->lkey, buffer, kLength, kLocal) == 1,
          "the device takes the key for all of the buffer");
  promise(ibv_dereg_mr(mr) == 0, "deregistering succeeds");
}

// One thread opens the library's domain while another registers with a protection domain new to the
// shim: in the program, or in the library under its lock.
template <typename Register>
int cross(Register come) {
  ibv_context* const device = fake_open_device();
  static Driver driver;
  struct Opener {
    ibv_context* device;
    rdm_domain* domain = nullptr;
  } opener{device};
  void* const buffer = malloc(kLength);
  for (int round = 0; round < kRounds; ++round) {
    alarm(kWatchdogS);
    driver.pd = ibv_alloc_pd(device);
    driver.entered = 0;
    driver.is_other_near = false;
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void* raw) -> void* {
          static_cast<Opener*>(raw)->domain = open_over(&driver);
          return nullptr;
        },
        &opener);
    while (driver.entered == 0) sched_yield();
    ibv_pd* const pd = ibv_alloc_pd(device);
    come(&driver, pd, buffer);
    pthread_join(thread, nullptr);
    promise(ibv_dealloc_pd(pd) == 0, "the other protection domain ends");
    close_of(&driver, opener.domain);
  }
  return 0;
}

int crossing() {
  return cross([](Driver* driver, ibv_pd* pd, void* buffer) {
    driver->is_other_near = true;
    register_once(pd, buffer);
  });
}

int under_a_lock() {
  return cross([](Driver* driver, ibv_pd* pd, void* buffer) {
    pthread_mutex_lock(&driver->lock);
    driver->is_other_near = true;
    let_others_run();
    register_once(pd, buffer);
    pthread_mutex_unlock(&driver->lock);
  });
}

// No domain can be opened inside a driver; afterwards one can.
int met_inside() {
  alarm(kWatchdogS);
  static Driver driver;
  driver.pd = ibv_alloc_pd(fake_open_device());
  void* const buffer = malloc(kLength);
  rdm_domain* const domain = open_over(&driver);
  for (uint64_t before = 0;;) {
    before = fake_books().registered;
    register_once(driver.pd, buffer);
    if (fake_books().registered == before) break;
    sched_yield();
  }
  const uint64_t before = fake_books().registered;
  for (int i = 0; i < 1000; ++i) register_once(driver.pd, buffer);
  promise(fake_books().registered == before, "then it is answered from regions for good");
  close_of(&driver, domain);
  return 0;
}

constexpr verbs::Case kCases[] = {
    {"crossing", crossing},
    {"under_a_lock", under_a_lock},
    {"met_inside", met_inside},
};

}  // namespace

int main(int argc, char** argv) { return verbs::run_case(kCases, argc, argv); }
