// A libibverbs.so.1 of the tests: no hardware, but the real library's symbol versions, its habit of
// reaching ibv_reg_mr_iova2 by name, and its fork protection. It keeps books of what is registered,
// judges every access by them, and ends the process when it is used wrongly.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

extern "C" {

ibv_context* fake_open_device();

struct FakeBooks {
  uint64_t registered;  // ever, by whomever
  uint64_t deregistered;
  uint64_t live;             // now
  uint64_t old_interface;    // calls of ibv_reg_mr of IBVERBS_1.0
  const void* last_address;  // of the last registration
  size_t last_length;
  unsigned last_access;
  pid_t driver_child;  // of the last fork by the driver; in that child 0, without one -1
};
FakeBooks fake_books();

// What a device would answer to a work request with this key: 1 when a memory region of that
// protection domain has the key, all of the range and these rights.
int fake_may_use(const ibv_pd* pd, uint32_t lkey, const void* address, size_t length,
                 unsigned access);
int fake_peer_may(const ibv_pd* pd, uint32_t rkey, const void* address, size_t length,
                  unsigned access);

// As ibv_alloc_parent_domain(), which is no function of the library's.
ibv_pd* fake_alloc_parent_domain(ibv_pd* over);

// From now on ibv_get_async_event() reports it.
void fake_lose_device(ibv_context* context);

// A device under it that keeps the pages it is given: called for each registration, and for its
// end, under no lock of the library's. Set before anything is registered.
struct FakeDevice {
  void* (*add)(const void* address, size_t length);  // null: refused
  void (*remove)(void* pages);
};
void fake_set_device(const FakeDevice* device);
// What add() returned for the memory region of that protection domain that has the key and all of
// the range; null: there is none.
void* fake_pages_of(const ibv_pd* pd, uint32_t lkey, const void* address, size_t length);

// As ibv_fork_init(): from now on ranges are hidden from children while they are registered.
void fake_hide_from_children();

// A driver that forks while it registers: this thread's next registration returns in both
// processes.
void fake_fork_in_next_registration();

}  // extern "C"
