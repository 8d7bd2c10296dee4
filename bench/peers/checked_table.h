// The minimum for a checked lookup: a call into another shared object that checks the window, reads
// the table of granules, checks the bounds and fills in the same result. It counts nothing, knows
// one domain and never registers: whatever rdm_lookup costs beyond it pays for its guarantees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

struct CheckedTable {
  static constexpr unsigned kGranuleShift = 21;  // regions start at multiples of 2 MiB

  uintptr_t base = 0;
  size_t size = 0;
  std::vector<uint16_t> by_granule;  // index of the region's entry; 0: none
  std::vector<rdm_mr> entries{{}};   // the first one covers nothing

  // Filled with what the domain says about each existing region.
  static CheckedTable of(const rdm_domain* domain);
};

extern "C" RDM_API int bench_checked_lookup(const CheckedTable* table, const void* address,
                                            size_t length, rdm_mr* out);

// A call of an empty function in the same place, which no called lookup can beat. Returns 0.
extern "C" RDM_API int bench_empty_call(const void* table, const void* address, size_t length,
                                        rdm_mr* out);

}  // namespace rdmalloc::bench
