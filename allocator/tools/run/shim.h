// The shims: libraries that interpose functions of another library, and that `run` preloads beside
// librdmalloc.so when their flag is given.
#pragma once

#include <array>
#include <cstddef>

namespace rdmalloc::cli {

struct Shim {
  const char* flag;
  const char* library;
  const char* effect;   // what the flag does
  const char* headers;  // without which it was not built; null: it needs none
};

inline constexpr std::array kShims{
    Shim{"--verbs", "librdmalloc-verbs.so",
         "answer libibverbs' registrations of malloc'd buffers from regions, too",
         "libibverbs (Debian: libibverbs-dev)"},
    Shim{"--ucx", "librdmalloc-ucx.so",
         "--verbs, and answer UCX's registrations of malloc'd buffers with all rights",
         "UCX (Debian: libucx-dev)"},
    Shim{"--ofi", "librdmalloc-ofi.so",
         "tell libfabric that what it registered of the heap stays right, for ever",
         "libfabric (Debian: libfabric-dev)"},
    Shim{"--mpi", "librdmalloc-mpi.so", "let MPI_Alloc_mem return memory of the heap", nullptr},
};

inline constexpr size_t kVerbsShim = 0;
inline constexpr size_t kUcxShim = 1;

}  // namespace rdmalloc::cli
