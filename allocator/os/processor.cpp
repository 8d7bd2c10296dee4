#include "allocator/os/processor.h"

// From glibc; weak, for older versions and other C libraries.
extern "C" {
[[gnu::weak]] extern const ptrdiff_t __rseq_offset;
[[gnu::weak]] extern const unsigned __rseq_size;
}

namespace rdmalloc::os {

constinit ptrdiff_t processor_number_at = 0;

void find_processor_number() {
  // struct rseq begins with cpu_id_start and cpu_id; the latter is negative until it is registered.
  if (&__rseq_offset == nullptr || &__rseq_size == nullptr || __rseq_size == 0) return;
  processor_number_at = __rseq_offset + static_cast<ptrdiff_t>(sizeof(uint32_t));
}

}  // namespace rdmalloc::os
