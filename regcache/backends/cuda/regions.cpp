#include "regcache/backends/cuda/regions.h"

#include <stdlib.h>

#include "regcache/posix_lock.h"

namespace rdmalloc {

// The link that points to the region, or the end of the list.
CudaRegions::Region** CudaRegions::find(const void* base) {
  Region** at = &first_;
  while (*at != nullptr && (*at)->base != base) at = &(*at)->next;
  return at;
}

CudaRegions::Claim CudaRegions::claim(const void* base, bool reads_only) {
  PosixLock hold(&mutex_);
  if (Region* const known = *find(base)) {
    if (known->users == 0) return Claim::kBusy;
    if (known->reads_only && !reads_only) return Claim::kRefused;
    ++known->users;
    return Claim::kShared;
  }
  auto* made = static_cast<Region*>(malloc(sizeof(Region)));
  if (made == nullptr) return Claim::kNoMemory;
  *made = {base, reads_only, 0, first_};
  first_ = made;
  return Claim::kOurs;
}

void CudaRegions::settle(const void* base, bool registered) {
  if (!registered) return forget(base);
  PosixLock hold(&mutex_);
  (*find(base))->users = 1;
}

CudaRegions::Release CudaRegions::release(const void* base) {
  PosixLock hold(&mutex_);
  Region* const known = *find(base);
  if (known == nullptr) return Release::kUnknown;
  return --known->users == 0 ? Release::kOurs : Release::kShared;
}

void CudaRegions::forget(const void* base) {
  PosixLock hold(&mutex_);
  Region** const at = find(base);
  Region* const known = *at;
  if (known == nullptr) return;
  *at = known->next;
  free(known);
}

}  // namespace rdmalloc
