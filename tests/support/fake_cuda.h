// A fake CUDA driver, libcuda.so.1. It has no hardware, but behaves like the real one wherever our
// code depends on it. Host memory is registered once per process and stays registered whatever is
// unmapped; contexts can be destroyed, or broken by sticky errors; device memory is reused at the
// address where it was freed; IPC handles open only memory of other processes. One struct, looked
// up by name in the library, tells it what to do and says what it saw.
//
// It allocates while it holds its lock, as real drivers do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/backends/cuda/library.h"

namespace rdmalloc::test {

struct FakeCuda {
  // What it should do; may be changed at any time.
  std::atomic<int> devices{1};
  std::atomic<int> start_status{kCudaSuccess};  // of cuInit
  std::atomic<bool> registers_host_memory{true};
  std::atomic<bool> registers_read_only{true};
  std::atomic<bool> same_addresses{true};  // the device sees registered memory where the host does
  std::atomic<uint64_t> most_bytes{UINT64_MAX};  // of registered memory
  std::atomic<uint64_t> most_registrations{UINT64_MAX};
  std::atomic<uint64_t> fail_at{0};  // the k-th registration from now fails with fail_status
  std::atomic<int> fail_status{kCudaOutOfMemory};
  std::atomic<int> unregister_status{kCudaSuccess};
  std::atomic<int> broken{kCudaSuccess};  // what every call in every context returns from now on
  std::atomic<bool> shut_down{false};     // set at exit
  std::atomic<int> export_status{kCudaSuccess};
  std::atomic<int> open_status{kCudaSuccess};
  std::atomic<uint32_t> open_us{0};  // the cost of opening a handle

  // What it saw.
  std::atomic<uint64_t> calls{0};  // of all functions together
  std::atomic<uint64_t> calls_in_child{
      0};  // of a fork, after the parent started the driver; but cuInit
  std::atomic<uint64_t> calls_after_shut_down{0};
  std::atomic<uint64_t> registrations{0};  // ever
  std::atomic<uint64_t> registered{0};     // now
  std::atomic<uint64_t> registered_bytes{0};
  std::atomic<uint64_t> refused_as_registered{0};
  std::atomic<unsigned> last_flags{0};
  std::atomic<uint64_t> opens{0};  // handles ever opened
  std::atomic<uint64_t> open{0};   // now
  std::atomic<uint64_t> refused_as_mapped{0};
  std::atomic<uint64_t> direct_copies{0};  // from or to registered memory, ...
  std::atomic<uint64_t> staged_copies{0};  // ... and other memory
  std::atomic<uint64_t> allocations{0};    // device allocations that exist now
};

}  // namespace rdmalloc::test

extern "C" {

rdmalloc::test::FakeCuda* fake_cuda();

// The state of a process that has just loaded the driver: nothing registered, no context, default
// behaviour.
void fake_cuda_reset();

// How many contexts are on this thread's stack.
size_t fake_cuda_depth();

// Whether one registration covers the whole range, which makes a copy direct.
int fake_cuda_covers(const void* base, size_t length);
}
