// The least that a checked lookup can be: a call into another shared object that checks the window,
// reads the table of granules, checks the bounds and fills in the same result. It counts nothing,
// knows one domain and never registers: what rdm_lookup costs beyond it, it pays for its promises.
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

  // What the domain says of each region there is.
  static CheckedTable of(const rdm_domain* domain);
};

extern "C" RDM_API int bench_checked_lookup(const CheckedTable* table, const void* address,
                                            size_t length, rdm_mr* out);

// A call of a function that does nothing, in the same place: what no lookup by call can beat. It
// returns 0.
extern "C" RDM_API int bench_empty_call(const void* table, const void* address, size_t length,
                                        rdm_mr* out);

}  // namespace rdmalloc::bench
