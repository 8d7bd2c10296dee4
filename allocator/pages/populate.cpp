#include "allocator/pages/populate.h"

namespace rdmalloc {
namespace {

// Populated by one call, in which the others wait.
constexpr size_t kStep = size_t{16} << 20;

}  // namespace

void populate_in_steps(const Region& region, const PageMarks& marks) {
  if (__atomic_exchange_n(&region.populated, true, __ATOMIC_RELAXED)) return;
  for (uintptr_t from = region.base; from < region.end();) {
    from = marks.first_kept(from, region.end());
    const uintptr_t most = region.end() - from < kStep ? region.end() : from + kStep;
    const uintptr_t to = marks.first_retired(from, most);
    if (to > from) (void)os::populate(reinterpret_cast<void*>(from), to - from);
    from = to;
  }
}

}  // namespace rdmalloc
