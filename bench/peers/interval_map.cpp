#include "bench/peers/interval_map.h"

#include <mutex>

namespace rdmalloc::bench {

void IntervalMap::add(void* base, size_t length, uint32_t key) {
  const std::unique_lock hold(mutex_);
  by_base_[reinterpret_cast<uintptr_t>(base)] = {base, length, key, 0, nullptr};
}

int IntervalMap::find(const void* address, size_t length, rdm_mr* out) const {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const std::shared_lock hold(mutex_);
  auto next = by_base_.upper_bound(start);
  if (next == by_base_.begin()) return RDM_NOT_REGISTERED;
  const auto& [base, mr] = *--next;
  if (start - base >= mr.length || length > mr.length - (start - base)) return RDM_NOT_REGISTERED;
  *out = mr;
  return RDM_OK;
}

}  // namespace rdmalloc::bench
