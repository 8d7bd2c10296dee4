#pragma once

#include <cstdint>

namespace rdmalloc::bench {

struct Buffer {
  char* address;
  uint32_t length;
  uint32_t index;
};

}  // namespace rdmalloc::bench
