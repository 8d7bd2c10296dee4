// Shared by the CUDA test programs: the library's functions, found at run time, a context, and
// copies that are checked byte by byte.
#pragma once

#include <sys/mman.h>

#include "include/rdmalloc/remote.h"
#include "tests/integration/probe.h"
#include "tests/support/cuda_driver.h"
#include "tests/support/fake_cuda.h"

namespace probe {

using rdmalloc::CudaAddress;
using rdmalloc::CudaContext;
using rdmalloc::kCudaSuccess;
using rdmalloc::test::cuda;

struct CudaDomains {
  decltype(rdm_domain_open_cuda)* open =
      symbol<decltype(rdm_domain_open_cuda)>("rdm_domain_open_cuda");
  decltype(rdm_domain_close)* close = symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  decltype(rdm_lookup)* lookup = symbol<decltype(rdm_lookup)>("rdm_lookup");
  decltype(rdm_get)* get = symbol<decltype(rdm_get)>("rdm_get");
  decltype(rdm_put)* put = symbol<decltype(rdm_put)>("rdm_put");
  decltype(rdm_last_error)* last_error = symbol<decltype(rdm_last_error)>("rdm_last_error");
  decltype(rdm_cuda_export)* export_memory = symbol<decltype(rdm_cuda_export)>("rdm_cuda_export");
  decltype(rdm_remote_cache_open_cuda)* remote_open =
      symbol<decltype(rdm_remote_cache_open_cuda)>("rdm_remote_cache_open_cuda");
  decltype(rdm_remote_cache_close)* remote_close =
      symbol<decltype(rdm_remote_cache_close)>("rdm_remote_cache_close");
  decltype(rdm_remote_get)* remote_get = symbol<decltype(rdm_remote_get)>("rdm_remote_get");
  decltype(rdm_remote_put)* remote_put = symbol<decltype(rdm_remote_put)>("rdm_remote_put");
  decltype(rdm_remote_forget)* remote_forget =
      symbol<decltype(rdm_remote_forget)>("rdm_remote_forget");
  decltype(rdm_remote_counts_get)* remote_counts =
      symbol<decltype(rdm_remote_counts_get)>("rdm_remote_counts_get");
};

inline const CudaDomains& domains() {
  static const CudaDomains found;
  return found;
}

// A function of the fake driver; null under a real one.
template <typename Function>
Function* of_fake(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
  return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

// Its books; null under a real one.
inline rdmalloc::test::FakeCuda* fake() {
  static const auto find = of_fake<decltype(fake_cuda)>("fake_cuda");
  return find != nullptr ? find() : nullptr;
}
inline bool covers(const void* base, size_t length) {
  return of_fake<decltype(fake_cuda_covers)>("fake_cuda_covers")(base, length) != 0;
}

// Makes the device's primary context current in this thread; skips if there is no device.
inline CudaContext use_device() {
  if (!cuda().is_there()) skip("there is no CUDA driver: libcuda.so.1 cannot be loaded");
  int devices = 0;
  if (cuda().init(0) != kCudaSuccess || cuda().count_devices(&devices) != kCudaSuccess ||
      devices == 0) {
    skip("the CUDA driver sees no device");
  }
  CudaContext context = nullptr;
  if (cuda().retain_primary(&context, 0) != kCudaSuccess ||
      cuda().set_current(context) != kCudaSuccess) {
    skip("the device has no context to give: is it free?");
  }
  return context;
}

struct CudaWish {
  unsigned flags = 0;
  unsigned access = 0;
  uint64_t foreign_bytes = 0;
  unsigned foreign_count = 0;
};

// RDM_OK and *out, or the status and a message.
inline int open_domain(const CudaWish& wish, rdm_domain** out, char* why, size_t why_size) {
  rdm_domain_options options{};
  options.size = sizeof options;
  options.flags = wish.flags;
  options.access = wish.access;
  options.foreign_bytes = wish.foreign_bytes;
  options.foreign_count = wish.foreign_count;
  options.error = why;
  options.error_size = why_size;
  return domains().open(nullptr, &options, out);
}

inline rdm_domain* open_domain(Verdict& verdict, const CudaWish& wish = {}) {
  char why[512] = {};
  rdm_domain* domain = nullptr;
  const int status = open_domain(wish, &domain, why, sizeof why);
  if (status == RDM_UNSUPPORTED) skip(why);
  if (status != RDM_OK) verdict.broken("opening a domain: status %d: %s", status, why);
  return domain;
}

inline void close_domain(rdm_domain* domain, Verdict& verdict) {
  const int status = domain == nullptr ? RDM_OK : domains().close(domain);
  if (status != RDM_OK) {
    verdict.broken("closing the domain: status %d: %s", status, domains().last_error());
  }
}

// Bytes that identify their offset.
inline unsigned char byte_at(uint64_t seed, size_t offset) {
  return static_cast<unsigned char>((offset * 0x9E3779B97F4A7C15U + seed) >> 32);
}
inline void fill(void* memory, size_t length, uint64_t seed) {
  for (size_t i = 0; i < length; ++i) static_cast<unsigned char*>(memory)[i] = byte_at(seed, i);
}
// The first offset that differs, or `length`.
inline size_t mismatch(const void* memory, size_t length, uint64_t seed) {
  for (size_t i = 0; i < length; ++i) {
    if (static_cast<const unsigned char*>(memory)[i] != byte_at(seed, i)) return i;
  }
  return length;
}

// Copies to the device and back into the same memory, which is overwritten in between.
inline void copy_there_and_back(void* memory, size_t length, uint64_t seed, const char* what,
                                Verdict& verdict) {
  CudaAddress device = 0;
  if (cuda().allocate(&device, length) != kCudaSuccess) skip("the device has no memory left");
  fill(memory, length, seed);
  int status = cuda().copy_to_device(device, memory, length);
  memset(memory, 0x5A, length);
  if (status == kCudaSuccess) status = cuda().copy_to_host(memory, device, length);
  if (status != kCudaSuccess) verdict.broken("%s: copying: CUDA error %d", what, status);
  const size_t at = mismatch(memory, length, seed);
  if (at != length) verdict.broken("%s: byte %zu of %zu is not what was sent", what, at, length);
  (void)cuda().deallocate(device);
}

inline char* map_pages(size_t length, void* at = nullptr) {
  void* got = mmap(at, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  return got == MAP_FAILED ? nullptr : static_cast<char*>(got);
}

}  // namespace probe
