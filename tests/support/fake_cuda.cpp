#include "tests/support/fake_cuda.h"

#include <stdlib.h>
#include <unistd.h>

#include <new>

#include "tests/support/fake_cuda_state.h"

namespace rdmalloc::test {
namespace {

constexpr size_t kMaxDepth = 16;

thread_local Context* stack[kMaxDepth];
thread_local size_t depth = 0;

Context* make_context() {
  driver().contexts.push_back(std::make_unique<Context>());
  return driver().contexts.back().get();
}

void mark_shut_down() { driver().fake.shut_down = true; }

}  // namespace

Driver& driver() {
  static auto* const made = new Driver;
  return *made;
}

Context* current() { return depth == 0 ? nullptr : stack[depth - 1]; }

CudaStatus enter() {
  test::FakeCuda& fake = driver().fake;
  ++fake.calls;
  if (fake.shut_down) {
    ++fake.calls_after_shut_down;
    return kCudaDeinitialized;
  }
  if (driver().process == 0) return kCudaNotInitialized;
  if (driver().process != getpid()) {
    ++fake.calls_in_child;
    return kCudaNotInitialized;
  }
  return kCudaSuccess;
}

CudaStatus enter_context() {
  const CudaStatus status = enter();
  if (status != kCudaSuccess) return status;
  if (current() == nullptr) return kCudaInvalidContext;
  if (!current()->alive) return kCudaContextIsDestroyed;
  return static_cast<CudaStatus>(driver().fake.broken.load());
}

}  // namespace rdmalloc::test

using namespace rdmalloc;
using namespace rdmalloc::test;

extern "C" {

test::FakeCuda* fake_cuda() { return &driver().fake; }

void fake_cuda_reset() {
  Driver& it = driver();
  const std::lock_guard<std::mutex> hold(it.mutex);
  for (const auto& [base, allocation] : it.allocations) free_allocation(base, allocation);
  it.allocations.clear();
  it.registered.clear();
  it.opened.clear();
  for (auto& context : it.contexts) context->alive = false;
  it.primary = nullptr;
  it.process = 0;
  depth = 0;
  it.fake.~FakeCuda();
  new (&it.fake) test::FakeCuda;
}

size_t fake_cuda_depth() { return depth; }

int fake_cuda_covers(const void* base, size_t length) {
  const std::lock_guard<std::mutex> hold(driver().mutex);
  return covers(base, length) ? 1 : 0;
}

CudaStatus cuInit(unsigned) {
  Driver& it = driver();
  ++it.fake.calls;
  if (it.fake.shut_down) return kCudaDeinitialized;
  if (it.process != 0 && it.process != getpid()) return kCudaNotInitialized;
  if (it.fake.devices == 0) return kCudaNoDevice;
  if (it.fake.start_status != kCudaSuccess) {
    return static_cast<CudaStatus>(it.fake.start_status.load());
  }
  const std::lock_guard<std::mutex> hold(it.mutex);
  static std::once_flag once;
  std::call_once(once, [] { atexit(mark_shut_down); });
  it.process = getpid();
  return kCudaSuccess;
}

#ifdef FAKE_CUDA_OLD
CudaStatus cuDriverGetVersion(int* out) { return *out = 4000, kCudaSuccess; }
#else
CudaStatus cuDriverGetVersion(int* out) { return *out = 12040, kCudaSuccess; }
#endif

CudaStatus cuDeviceGetCount(int* out) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  return *out = driver().fake.devices, kCudaSuccess;
}

CudaStatus cuDeviceGet(CudaDevice* out, int ordinal) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  return *out = ordinal, kCudaSuccess;
}

CudaStatus cuDeviceGetAttribute(int* out, CudaDeviceAttribute attribute, CudaDevice) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  const test::FakeCuda& fake = driver().fake;
  if (attribute == kCudaHostRegisterSupported)
    return *out = fake.registers_host_memory, kCudaSuccess;
  if (attribute == kCudaReadOnlyHostRegisterSupported) {
    return *out = fake.registers_read_only, kCudaSuccess;
  }
  return kCudaInvalidValue;
}

CudaStatus cuCtxCreate_v2(CudaContext* out, unsigned, CudaDevice) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  if (depth == kMaxDepth) return kCudaOutOfMemory;
  *out = stack[depth++] = make_context();
  return kCudaSuccess;
}

CudaStatus cuCtxDestroy_v2(CudaContext handle) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  auto* context = static_cast<Context*>(handle);
  context->alive = false;
  forget_registrations_of(context);
  if (current() == context) --depth;
  return kCudaSuccess;
}

CudaStatus cuDevicePrimaryCtxRetain(CudaContext* out, CudaDevice) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  if (driver().primary == nullptr) driver().primary = make_context();
  *out = driver().primary;
  return kCudaSuccess;
}

CudaStatus cuCtxGetCurrent(CudaContext* out) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  return *out = current(), kCudaSuccess;
}

CudaStatus cuCtxSetCurrent(CudaContext context) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  if (depth == 0) ++depth;
  stack[depth - 1] = static_cast<Context*>(context);
  return kCudaSuccess;
}

CudaStatus cuCtxPushCurrent_v2(CudaContext handle) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  auto* context = static_cast<Context*>(handle);
  if (context == nullptr || !context->alive || depth == kMaxDepth) return kCudaInvalidContext;
  stack[depth++] = context;
  return kCudaSuccess;
}

CudaStatus cuCtxPopCurrent_v2(CudaContext* out) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  if (depth == 0) return kCudaInvalidContext;
  *out = stack[--depth];
  return kCudaSuccess;
}

CudaStatus cuCtxGetDevice(CudaDevice* out) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  return *out = 0, kCudaSuccess;
}

CudaStatus cuCtxSynchronize() { return enter_context(); }

CudaStatus cuGetErrorName(CudaStatus status, const char** out) {
  switch (status) {
    case kCudaIllegalAddress:
      return *out = "CUDA_ERROR_ILLEGAL_ADDRESS", kCudaSuccess;
    case kCudaTooManyPeers:
      return *out = "CUDA_ERROR_TOO_MANY_PEERS", kCudaSuccess;
    case kCudaNotSupported:
      return *out = "CUDA_ERROR_NOT_SUPPORTED", kCudaSuccess;
    default:
      *out = nullptr;
      return kCudaInvalidValue;
  }
}

}  // extern "C"
