// A program that finds libibverbs with dlopen() and dlvsym() on its handle, as NCCL does.
// libibverbs' ibv_reg_mr calls ibv_reg_mr_iova2 by name, and so reaches the shim; its ibv_dereg_mr
// calls no function by name.
//
// With MIXED, the control: a program linked with libibverbs, so that the shim answers, which
// deregisters with what it found. 0: as promised; 1: not; 3: misuse of libibverbs.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_libibverbs.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace {

#ifdef MIXED
constexpr bool kMixed = true;
#else
constexpr bool kMixed = false;
#endif

void* library = nullptr;

template <typename Function>
Function* find(const char* name, const char* version, Function*) {
  void* found = dlvsym(library, name, version);
  if (found == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return reinterpret_cast<Function*>(found);
}
// Only the parameter's type is used: nothing is imported by it.
#define FIND(name, version) find(#name, version, static_cast<decltype(&name)>(nullptr))

constexpr size_t kSize = 5000;
constexpr uint64_t kCount = 100;

bool is_libibverbs_own(ibv_pd* pd, const ibv_mr* mr, const void* buffer) {
  const FakeBooks books = FIND(fake_books, "FAKE")();
  return mr != nullptr && books.live == 1 && books.last_address == buffer &&
         books.last_length == kSize &&
         FIND(fake_may_use, "FAKE")(pd, mr->lkey, buffer, kSize, IBV_ACCESS_LOCAL_WRITE) == 1;
}

}  // namespace

int main(int argc, char** argv) {
  library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    fprintf(stderr, "no libibverbs: %s\n", argc == 2 ? dlerror() : "name it");
    return 2;
  }
  const auto dereg = FIND(ibv_dereg_mr, "IBVERBS_1.1");
#ifdef MIXED
  const auto reg = &ibv_reg_mr;
  int (*volatile imported)(ibv_mr*) = &ibv_dereg_mr;
  (void)imported;
#else
  const auto reg = FIND(ibv_reg_mr, "IBVERBS_1.1");
#endif
  ibv_context* context = FIND(fake_open_device, "FAKE")();
  ibv_pd* pd = FIND(ibv_alloc_pd, "IBVERBS_1.1")(context);
  for (uint64_t i = 0; i < kCount; ++i) {
    void* buffer = malloc(kSize);
    ibv_mr* mr = reg(pd, buffer, kSize, IBV_ACCESS_LOCAL_WRITE);
    if (!kMixed && !is_libibverbs_own(pd, mr, buffer)) return 1;
    if (mr == nullptr || dereg(mr) != 0) return 1;
    free(buffer);
  }
  const FakeBooks books = FIND(fake_books, "FAKE")();
  if (FIND(ibv_dealloc_pd, "IBVERBS_1.1")(pd) != 0) return 1;
  return books.registered == kCount && books.deregistered == kCount && books.live == 0 ? 0 : 1;
}
