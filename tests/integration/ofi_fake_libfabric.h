// A libfabric.so.1 of the tests: no hardware, but the real library's symbol versions, a provider in
// layers that opens the inner fabric by name (as ofi_rxm does), and a registration cache that lives
// by the rules of the real one: it asks the imported monitor, and without one keeps nothing. It
// ends the process when it is used wrongly.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_ext.h>

#include <cstddef>
#include <cstdint>

extern "C" {

struct FakeOfiBooks {
  uint64_t registered;     // with the device, ever
  uint64_t live;           // now, kept ones included
  uint64_t old_interface;  // calls of fi_fabric of FABRIC_1.0
  uint64_t elsewhere;      // with a domain that is one thread's (FI_THREAD_DOMAIN), in another
};
FakeOfiBooks fake_ofi_books();

// The device's library, such as libibverbs: called for each registration, and for its end, under no
// lock of the made-up one's. Set before anything is registered.
struct FakeOfiDevice {
  void* (*add)(const void* address, size_t length);  // null: refused
  void (*remove)(void* registration);
};
void fake_ofi_set_device(const FakeOfiDevice* device);
// What add() returned for the memory region with that descriptor, if it has all of the range; null:
// there is none.
void* fake_ofi_registration_of(const void* descriptor, const void* address, size_t length);

// Registrations with the device, ever, that had the byte at `address`.
uint64_t fake_ofi_registrations_of(const void* address);

}  // extern "C"
