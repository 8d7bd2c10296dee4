// A fake libibverbs.so.1: no hardware, but the real library's symbol versions, its habit of
// reaching ibv_reg_mr_iova2 by name, and its fork protection. It keeps books of registrations,
// judges every access by them, and ends the process on misuse.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

extern "C" {

ibv_context* fake_open_device();

struct FakeBooks {
  uint64_t registered;  // ever, by any caller
  uint64_t deregistered;
  uint64_t live;             // now
  uint64_t old_interface;    // calls of ibv_reg_mr of IBVERBS_1.0
  const void* last_address;  // of the last registration
  size_t last_length;
  unsigned last_access;
  pid_t driver_child;  // of the last fork by the driver: 0 in that child, -1 if none
};
FakeBooks fake_books();

// How a device would answer a work request with this key: 1 if a memory region of that protection
// domain has the key, the whole range and these rights.
int fake_may_use(const ibv_pd* pd, uint32_t lkey, const void* address, size_t length,
                 unsigned access);
int fake_peer_may(const ibv_pd* pd, uint32_t rkey, const void* address, size_t length,
                  unsigned access);

// As ibv_alloc_parent_domain(), which the library does not export.
ibv_pd* fake_alloc_parent_domain(ibv_pd* over);

// From now on ibv_get_async_event() reports it.
void fake_lose_device(ibv_context* context);

// An underlying device that keeps the pages it is given: called for each registration and
// deregistration, under none of the library's locks. Set before anything is registered.
struct FakeDevice {
  void* (*add)(const void* address, size_t length);  // null: refused
  void (*remove)(void* pages);
};
void fake_set_device(const FakeDevice* device);
// What add() returned for the memory region of that protection domain that has the key and covers
// the whole range; otherwise null.
void* fake_pages_of(const ibv_pd* pd, uint32_t lkey, const void* address, size_t length);

// As ibv_fork_init(): from now on ranges are hidden from children while they are registered.
void fake_hide_from_children();

// A driver that forks while registering: this thread's next registration returns in both processes.
void fake_fork_in_next_registration();

// The next registration, of any thread, calls this once and goes on when it has returned.
void fake_call_in_next_registration(int (*call)());

}  // extern "C"
