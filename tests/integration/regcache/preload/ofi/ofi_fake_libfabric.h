// A fake libfabric.so.1: no hardware, but the real library's symbol versions, a layered provider
// that opens the inner fabric by name (as ofi_rxm does), and a registration cache that follows the
// real one's rules: it asks the imported monitor, and without one keeps nothing. Misuse ends the
// process.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_ext.h>

#include <cstddef>
#include <cstdint>

// The flag by which providers pass by the cache, with the real library's value.
inline constexpr uint64_t kFakeOfiNoCache = uint64_t{1} << 60;

extern "C" {

struct FakeOfiBooks {
  uint64_t registered;     // with the device, ever
  uint64_t live;           // now, kept ones included
  uint64_t old_interface;  // calls of fi_fabric of FABRIC_1.0
  uint64_t elsewhere;      // on a one-thread domain (FI_THREAD_DOMAIN), from another thread
};
FakeOfiBooks fake_ofi_books();

// The device's library, such as libibverbs: called for each registration and deregistration, under
// none of the fake library's locks. Set before anything is registered.
struct FakeOfiDevice {
  void* (*add)(const void* address, size_t length);  // null: refused
  void (*remove)(void* registration);
};
void fake_ofi_set_device(const FakeOfiDevice* device);
// What add() returned for the memory region with that descriptor, if it covers the whole range;
// otherwise null.
void* fake_ofi_registration_of(const void* descriptor, const void* address, size_t length);

// How many registrations with the device ever covered the byte at `address`.
uint64_t fake_ofi_registrations_of(const void* address);

}  // extern "C"
