// Exact large sizes: see exact_size.cpp.
#pragma once

#include <cstddef>

namespace rdmalloc::engine {

// Sizes above this are left to jemalloc, which refuses them or rounds them; no machine has them.
inline constexpr size_t kLargestExact = size_t{1} << 46;

// While one lives, large objects that this thread gets from jemalloc have extents for `size` bytes
// instead of for its class. For the aligned functions, whose size jemalloc forgets early.
class ExactRequest {
 public:
  explicit ExactRequest(size_t size);
  ~ExactRequest();
  ExactRequest(const ExactRequest&) = delete;
  ExactRequest& operator=(const ExactRequest&) = delete;
};

// True when jemalloc's size classes are the ones that this was written for.
bool is_engine_known();

}  // namespace rdmalloc::engine
