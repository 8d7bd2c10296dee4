// The fake CUDA driver's device memory: allocated, copied from and to, and opened by other
// processes. It consists of memory files, mapped at the device's addresses.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fake_cuda_state.h"

namespace rdmalloc::test {

void free_allocation(uintptr_t base, const Allocation& allocation) {
  (void)mmap(reinterpret_cast<void*>(base), allocation.length, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  close(allocation.file);
  --driver().fake.allocations;
}

namespace {

constexpr size_t kArenaBytes = size_t{1} << 30;  // address space, which limits the device memory
constexpr size_t kUnit = size_t{64} << 10;       // allocations are multiples of this

// The lowest free addresses, so that memory just freed is reused.
uintptr_t find_room(size_t length) {
  if (driver().arena == nullptr) {
    void* arena =
        mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) return 0;
    driver().arena = static_cast<char*>(arena);
  }
  uintptr_t next = (reinterpret_cast<uintptr_t>(driver().arena) + kUnit - 1) & ~(kUnit - 1);
  for (const auto& [base, allocation] : driver().allocations) {
    if (base - next >= length) break;
    next = (base + allocation.length + kUnit - 1) & ~(kUnit - 1);
  }
  return next + length <= reinterpret_cast<uintptr_t>(driver().arena) + kArenaBytes ? next : 0;
}

// Finds device memory, this process's own or opened from another; null for any other address.
const Allocation* find_allocation(CudaAddress address, uintptr_t* base) {
  auto it = driver().allocations.upper_bound(address);
  if (it == driver().allocations.begin()) return nullptr;
  --it;
  *base = it->first;
  return address < it->first + it->second.length ? &it->second : nullptr;
}
bool is_on_device(CudaAddress address, size_t length) {
  uintptr_t base = 0;
  if (const Allocation* in = find_allocation(address, &base)) {
    return address + length <= base + in->length;
  }
  for (const auto& [at, opened] : driver().opened) {
    if (address >= at && address + length <= at + opened.exported.length) return true;
  }
  // The device can access registered host memory.
  return driver().fake.same_addresses && covers(reinterpret_cast<const void*>(address), length);
}

void name_of(const Exported& exported, char* name, size_t size) {
  snprintf(name, size, "fake_cuda_%d_%llu", exported.process,
           static_cast<unsigned long long>(exported.generation));
}

// The file behind a handle; -1: the memory was freed, or its process has ended.
int open_file(const Exported& exported) {
  char name[64];
  char path[64];
  char link[128] = {};
  snprintf(path, sizeof path, "/proc/%d/fd/%d", exported.process, exported.file);
  name_of(exported, name, sizeof name);
  if (readlink(path, link, sizeof link - 1) < 0) return -1;
  const char* at = strstr(link, name);
  return at != nullptr && at[strlen(name)] == ' ' ? open(path, O_RDWR | O_CLOEXEC) : -1;
}

// An open mapping that overlaps this memory of that process, even one of memory freed since.
std::map<uintptr_t, Opened>::iterator find_opened(const Exported& exported) {
  auto it = driver().opened.begin();
  for (; it != driver().opened.end(); ++it) {
    const Exported& other = it->second.exported;
    if (other.process == exported.process && other.base < exported.base + exported.length &&
        exported.base < other.base + other.length) {
      break;
    }
  }
  return it;
}

CudaStatus copy(void* to, const void* from, size_t length, const void* host, CudaAddress device) {
  const std::lock_guard<std::mutex> hold(driver().mutex);
  if (!is_on_device(device, length)) return kCudaInvalidValue;
  ++(covers(host, length) ? driver().fake.direct_copies : driver().fake.staged_copies);
  memcpy(to, from, length);
  return kCudaSuccess;
}

}  // namespace
}  // namespace rdmalloc::test

using namespace rdmalloc;
using namespace rdmalloc::test;

extern "C" {

CudaStatus cuMemAlloc_v2(CudaAddress* out, size_t length) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  if (length == 0) return kCudaInvalidValue;
  const uintptr_t base = find_room(length);
  if (base == 0) return kCudaOutOfMemory;
  Allocation made{length, -1, ++driver().generation, current()};
  char name[64];
  name_of({getpid(), -1, made.generation, 0, 0}, name, sizeof name);
  made.file = memfd_create(name, MFD_CLOEXEC);
  const size_t pages = (length + kHostPage - 1) & ~(kHostPage - 1);
  if (made.file < 0 || ftruncate(made.file, static_cast<off_t>(pages)) != 0 ||
      mmap(reinterpret_cast<void*>(base), pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           made.file, 0) == MAP_FAILED) {
    if (made.file >= 0) close(made.file);
    return kCudaOutOfMemory;
  }
  driver().allocations[base] = made;
  ++driver().fake.allocations;
  *out = base;
  return kCudaSuccess;
}

CudaStatus cuMemFree_v2(CudaAddress address) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  const auto it = driver().allocations.find(address);
  if (it == driver().allocations.end()) return kCudaInvalidValue;
  free_allocation(it->first, it->second);
  driver().allocations.erase(it);
  return kCudaSuccess;
}

CudaStatus cuMemcpyHtoD_v2(CudaAddress to, const void* from, size_t length) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  return copy(reinterpret_cast<void*>(to), from, length, from, to);
}

CudaStatus cuMemcpyDtoH_v2(void* to, CudaAddress from, size_t length) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  return copy(to, reinterpret_cast<const void*>(from), length, to, from);
}

CudaStatus cuPointerGetAttribute(void* out, CudaPointerAttribute attribute, CudaAddress address) {
  if (const CudaStatus status = enter(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  uintptr_t base = 0;
  const Allocation* in = find_allocation(address, &base);
  const bool is_host = covers(reinterpret_cast<const void*>(address), 1);
  if (in == nullptr && !is_host) return kCudaInvalidValue;
  if (attribute == kCudaPointerContext) {
    *static_cast<CudaContext*>(out) = in == nullptr ? current() : in->context;
  } else {
    *static_cast<unsigned*>(out) = in == nullptr ? 1 : kCudaMemoryTypeDevice;
  }
  return kCudaSuccess;
}

CudaStatus cuMemGetAddressRange_v2(CudaAddress* base, size_t* length, CudaAddress address) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  uintptr_t start = 0;
  const Allocation* in = find_allocation(address, &start);
  if (in == nullptr) return kCudaNotFound;
  *base = start;
  *length = in->length;
  return kCudaSuccess;
}

CudaStatus cuIpcGetMemHandle(CudaIpcHandle* out, CudaAddress address) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  if (driver().fake.export_status != kCudaSuccess) {
    return static_cast<CudaStatus>(driver().fake.export_status.load());
  }
  const auto it = driver().allocations.find(address);
  if (it == driver().allocations.end()) return kCudaInvalidValue;
  const Exported exported{getpid(), it->second.file, it->second.generation, it->first,
                          it->second.length};
  memset(out, 0, sizeof *out);
  memcpy(out, &exported, sizeof exported);
  return kCudaSuccess;
}

CudaStatus cuIpcOpenMemHandle_v2(CudaAddress* out, CudaIpcHandle handle, unsigned flags) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  FakeCuda& fake = driver().fake;
  if (fake.open_us != 0) usleep(fake.open_us);
  const std::lock_guard<std::mutex> hold(driver().mutex);
  Exported exported;
  memcpy(&exported, &handle, sizeof exported);
  if (flags != kCudaLazyEnablePeerAccess) return kCudaInvalidValue;
  if (fake.open_status != kCudaSuccess) return static_cast<CudaStatus>(fake.open_status.load());
  if (exported.process == getpid()) return kCudaInvalidContext;
  if (const auto it = find_opened(exported); it != driver().opened.end()) {
    if (it->second.exported.generation != exported.generation) {
      ++fake.refused_as_mapped;
      return kCudaAlreadyMapped;
    }
    ++it->second.users;
    ++fake.opens;
    *out = it->first;
    return kCudaSuccess;
  }
  const int file = open_file(exported);
  if (file < 0) return kCudaMapFailed;
  void* mapped = mmap(nullptr, exported.length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return kCudaOutOfMemory;
  driver().opened[reinterpret_cast<uintptr_t>(mapped)] = {exported, 1};
  ++fake.opens;
  ++fake.open;
  *out = reinterpret_cast<uintptr_t>(mapped);
  return kCudaSuccess;
}

CudaStatus cuIpcCloseMemHandle(CudaAddress address) {
  if (const CudaStatus status = enter_context(); status != kCudaSuccess) return status;
  const std::lock_guard<std::mutex> hold(driver().mutex);
  const auto it = driver().opened.find(address);
  if (it == driver().opened.end()) return kCudaInvalidValue;
  if (--it->second.users > 0) return kCudaSuccess;
  munmap(reinterpret_cast<void*>(address), it->second.exported.length);
  driver().opened.erase(it);
  --driver().fake.open;
  return kCudaSuccess;
}

}  // extern "C"
