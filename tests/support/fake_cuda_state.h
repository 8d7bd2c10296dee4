// What the made-up CUDA driver (fake_cuda.h) holds, shared by the files it consists of.
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

// A run of device memory: a file, which other processes open.
struct Allocation {
  size_t length = 0;
  int file = -1;
  uint64_t generation = 0;
  Context* context = nullptr;
};

// What a handle holds.
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

// All of it is guarded by the mutex, but what is in `fake`.
struct Driver {
  std::mutex mutex;
  FakeCuda fake;
  int process = 0;  // that started it; 0: nobody has
  std::vector<std::unique_ptr<Context>> contexts;
  Context* primary = nullptr;
  std::map<uintptr_t, Registration> registered;
  char* arena = nullptr;
  std::map<uintptr_t, Allocation> allocations;
  std::map<uintptr_t, Opened> opened;
  uint64_t generation = 0;
};

// Never destroyed: calls come at exit, too.
Driver& driver();

// What is current in this thread; null: nothing.
Context* current();

// What begins every call, and every call that needs a context: kCudaSuccess, or what it returns.
CudaStatus enter();
CudaStatus enter_context();

// Under the mutex.
void forget_registrations_of(const Context* context);
bool covers(const void* base, size_t length);
void free_allocation(uintptr_t base, const Allocation& allocation);

}  // namespace rdmalloc::test
