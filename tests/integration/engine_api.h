// jemalloc's own functions, found at run time in the library or in stock jemalloc; libc has none.
#pragma once

#include <stddef.h>

#include "tests/integration/probe.h"

namespace probe {

struct Engine {
  using Mallctl = int(const char*, void*, size_t*, void*, size_t);
  using MallctlNameToMib = int(const char*, size_t*, size_t*);
  using MallctlByMib = int(const size_t*, size_t, void*, size_t*, void*, size_t);
  void* (*mallocx)(size_t, int) = symbol<void*(size_t, int)>("mallocx");
  void* (*rallocx)(void*, size_t, int) = symbol<void*(void*, size_t, int)>("rallocx");
  size_t (*xallocx)(void*, size_t, size_t,
                    int) = symbol<size_t(void*, size_t, size_t, int)>("xallocx");
  size_t (*sallocx)(const void*, int) = symbol<size_t(const void*, int)>("sallocx");
  size_t (*nallocx)(size_t, int) = symbol<size_t(size_t, int)>("nallocx");
  void (*dallocx)(void*, int) = symbol<void(void*, int)>("dallocx");
  void (*sdallocx)(void*, size_t, int) = symbol<void(void*, size_t, int)>("sdallocx");
  Mallctl* mallctl = symbol<Mallctl>("mallctl");
  MallctlNameToMib* name_to_mib = symbol<MallctlNameToMib>("mallctlnametomib");
  MallctlByMib* by_mib = symbol<MallctlByMib>("mallctlbymib");
};

inline const Engine& engine() {
  static const Engine found;
  return found;
}

// From jemalloc's header, which is not needed to build the tests.
inline constexpr int kZeroFlag = 0x40;
inline int align_flag(size_t alignment) { return __builtin_ctzl(alignment); }
inline int arena_flag(unsigned arena) { return static_cast<int>((arena + 1) << 20); }
inline constexpr int kNoTcacheFlag = (1 << 8);

}  // namespace probe
