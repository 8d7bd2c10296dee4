#include "bench/peers/checked_table.h"

namespace rdmalloc::bench {

extern "C" int bench_checked_lookup(const CheckedTable* table, const void* address, size_t length,
                                    rdm_mr* out) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const size_t offset = start - table->base;
  if (offset >= table->size) return RDM_NOT_OWNED;
  const rdm_mr& entry =
      table->entries.data()[table->by_granule.data()[offset >> CheckedTable::kGranuleShift]];
  const size_t within = start - reinterpret_cast<uintptr_t>(entry.base);
  if (within >= entry.length || length > entry.length - within) return RDM_NOT_REGISTERED;
  *out = entry;
  return RDM_OK;
}

extern "C" int bench_empty_call(const void*, const void*, size_t, rdm_mr*) { return 0; }

}  // namespace rdmalloc::bench
