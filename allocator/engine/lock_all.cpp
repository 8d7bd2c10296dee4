// mlockall, for programs that lock all their memory: locks everything except the parts of the
// window that were never handed out.
#include "allocator/os/lock_all.h"

#include "allocator/pages/heap.h"

namespace {

using rdmalloc::heap;
using rdmalloc::Region;
using rdmalloc::os::LeftOut;

// The part of a region that was never handed out.
LeftOut find_left_out(uintptr_t from, uintptr_t to) {
  void* const at = reinterpret_cast<void*>(from);
  const Region* const region = heap.window().contains(at) ? heap.regions().find(at) : nullptr;
  if (region == nullptr) return {};
  const Region::Range fresh = region->fresh();
  if (fresh.to <= fresh.from || fresh.to <= from || fresh.from >= to) return {};
  return {fresh.from > from ? fresh.from : from, fresh.to, region->locked};
}

}  // namespace

extern "C" {

// From <sys/mman.h>.
[[gnu::visibility("default")]] int mlockall(int flags) noexcept;
int mlockall(int flags) noexcept { return rdmalloc::os::lock_all(flags, find_left_out); }

}  // extern "C"
