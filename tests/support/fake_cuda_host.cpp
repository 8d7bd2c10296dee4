// The fake CUDA driver's host memory: what is registered, and what may be.
#include "allocator/os/newer_headers.h"
#include "tests/support/fake_cuda_state.h"

#ifdef FAKE_CUDA_OLD
#define cuMemHostRegister_v2 cuMemHostRegister
#endif

namespace rdmalloc::test {
namespace {

constexpr uintptr_t kElsewhere = uintptr_t{1} << 44;  // between host and device addresses

uintptr_t floor_of(const void* address) {
  return reinterpret_cast<uintptr_t>(address) & ~(kHostPage - 1);
}
uintptr_t ceil_of(const void* base, size_t length) {
  return (reinterpret_cast<uintptr_t>(base) + length + kHostPage - 1) & ~(kHostPage - 1);
}

bool overlaps_registered(const void* base, size_t length) {
  const uintptr_t begin = floor_of(base);
  const uintptr_t end = ceil_of(base, length);
  for (const auto& [at, registration] : driver().registered) {
    const auto* its_base = reinterpret_cast<const void*>(at);
    if (floor_of(its_base) < end && begin < ceil_of(its_base, registration.length)) return true;
  }
  return false;
}

// The page tables decide what may be pinned, as for the real driver.
bool can_pin(const void* base, size_t length, bool writes) {
  const uintptr_t begin = floor_of(base);
  return madvise(reinterpret_cast<void*>(begin), ceil_of(base, length) - begin,
                 writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}

CudaStatus check_registration(void* base, size_t length, unsigned flags) {
  FakeCuda& fake = driver().fake;
  if (fake.fail_at != 0 && --fake.fail_at == 0) {
    return static_cast<CudaStatus>(fake.fail_status.load());
  }
  if (base == nullptr || length == 0) return kCudaInvalidValue;
  const bool reads_only = (flags & kCudaRegisterReadOnly) != 0;
  if (reads_only && !fake.registers_read_only) return kCudaNotSupported;
  if (overlaps_registered(base, length)) {
    ++fake.refused_as_registered;
    return kCudaHostMemoryAlreadyRegistered;
  }
  if (!can_pin(base, length, !reads_only)) return kCudaInvalidValue;
  if (fake.registered + 1 > fake.most_registrations ||
      fake.registered_bytes + length > fake.most_bytes) {
    return kCudaOutOfMemory;
  }
  return kCudaSuccess;
}

void forget(std::map<uintptr_t, Registration>::iterator it) {
  --driver().fake.registered;
  driver().fake.registered_bytes -= it->second.length;
  driver().registered.erase(it);
}

}  // namespace

void forget_registrations_of(const Context* context) {
  for (auto it = driver().registered.begin(); it != driver().registered.end();) {
    const auto next = std::next(it);
    if (it->second.context == context) forget(it);
    it = next;
  }
}

bool covers(const void* base, size_t length) {
  const auto at = reinterpret_cast<uintptr_t>(base);
  auto it = driver().registered.upper_bound(at);
  if (it == driver().registered.begin()) return false;
  --it;
  return at + length <= it->first + it->second.length;
}

}  // namespace rdmalloc::test

using namespace rdmalloc;
using namespace rdmalloc::test;

extern "C" {

CudaStatus cuMemHostRegister_v2(void* base, size_t length, unsigned flags) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  Driver& it = driver();
  const std::lock_guard<std::mutex> hold(it.mutex);
  it.fake.last_flags = flags;
  const CudaStatus status = check_registration(base, length, flags);
  if (status != kCudaSuccess) return status;
  it.registered[reinterpret_cast<uintptr_t>(base)] = {length, current()};
  ++it.fake.registrations;
  ++it.fake.registered;
  it.fake.registered_bytes += length;
  return kCudaSuccess;
}
CudaStatus cuMemHostUnregister(void* base) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  Driver& it = driver();
  const std::lock_guard<std::mutex> hold(it.mutex);
  if (it.fake.unregister_status != kCudaSuccess) {
    return static_cast<CudaStatus>(it.fake.unregister_status.load());
  }
  const auto found = it.registered.find(reinterpret_cast<uintptr_t>(base));
  if (found == it.registered.end()) return kCudaHostMemoryNotRegistered;
  forget(found);
  return kCudaSuccess;
}

CudaStatus cuMemHostGetDevicePointer_v2(CudaAddress* out, void* host, unsigned) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  if (!covers(host, 1)) return kCudaInvalidValue;
  *out = reinterpret_cast<uintptr_t>(host) + (driver().fake.same_addresses ? 0 : kElsewhere);
  return kCudaSuccess;
}

}  // extern "C"
