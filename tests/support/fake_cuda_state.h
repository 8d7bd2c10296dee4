// The state of the fake CUDA driver (fake_cuda.h), shared by its source files.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/fake_cuda.h"

namespace rdmalloc::test {

inline constexpr size_t kHostPage = 4096;

struct Context {
  bool alive = true;
  bool is_primary = false;
};

struct Registration {
  size_t length = 0;
  const Context* context = nullptr;
};

// A run of device memory: a file that other processes can open.
struct Allocation {
  size_t length = 0;
  int file = -1;
  uint64_t generation = 0;
  Context* context = nullptr;
};

// The contents of a handle.
struct Exported {
  int process;
  int file;
  uint64_t generation;
  uintptr_t base;
  size_t length;
};
static_assert(sizeof(Exported) <= sizeof(CudaIpcHandle));

struct Opened {
  Exported exported{};
  int users = 0;
};

// The mutex guards everything except `fake`.
struct Driver {
  std::mutex mutex;
  FakeCuda fake;
  int process = 0;  // the process that started it; 0: not started
  std::vector<std::unique_ptr<Context>> contexts;
  Context* primary = nullptr;
  std::map<uintptr_t, Registration> registered;
  char* arena = nullptr;
  std::map<uintptr_t, Allocation> allocations;
  std::map<uintptr_t, Opened> opened;
  uint64_t generation = 0;
};

// Never destroyed, because calls come at exit too.
Driver& driver();

// This thread's current context, or null.
Context* current();

// Begins every call (the second: every call that needs a context). kCudaSuccess, or the status to
// return.
CudaStatus enter();
CudaStatus enter_context();

// Under the mutex.
void forget_registrations_of(const Context* context);
bool covers(const void* base, size_t length);
void free_allocation(uintptr_t base, const Allocation& allocation);

}  // namespace rdmalloc::test
