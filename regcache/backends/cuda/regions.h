// The heap's regions that are registered with CUDA, shared by the domains of the process: the
// driver registers memory only once, for all contexts, and a program opens a domain for each of its
// devices.
//
// Regions only, which never change. Foreign memory is not shared: one domain may still have the
// pages that were at an address when another asks for those that are there now.
//
// A region is identified by its base: all domains register it with the same length. Any thread; it
// takes a lock of its own, but never holds it while the driver is called. Not in a child of fork.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace rdmalloc {

class CudaRegions {
 public:
  constexpr CudaRegions() = default;
  CudaRegions(const CudaRegions&) = delete;
  CudaRegions& operator=(const CudaRegions&) = delete;

  // kOurs: the caller registers it now and then calls settle(). kShared: it is registered and has
  // gained a user. kBusy: another thread is working on it; try again later. kRefused: it is
  // registered for reading only.
  enum class Claim { kOurs, kShared, kBusy, kRefused, kNoMemory };
  Claim claim(const void* base, bool reads_only);
  void settle(const void* base, bool registered);

  // kOurs: it has no user left; the caller deregisters it now and then calls forget(), even if
  // deregistering failed. kShared: it has other users. kUnknown: it is not a region.
  enum class Release { kOurs, kShared, kUnknown };
  Release release(const void* base);
  void forget(const void* base);

 private:
  struct Region {
    const void* base;
    bool reads_only;
    size_t users;  // 0: being registered, or deregistered
    Region* next;
  };
  Region** find(const void* base);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Region* first_ = nullptr;
};

}  // namespace rdmalloc
