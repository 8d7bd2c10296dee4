#include "allocator/pages/mappings.h"

#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

constexpr size_t kShareOfMappings = 8;

}  // namespace

// Not read at start: it takes a file, and small processes never gather.
size_t Mappings::most() const {
  if (most_ == 0) most_ = os::most_mappings() / kShareOfMappings + 1;
  return most_;
}

size_t Mappings::count_in(uintptr_t address, size_t size) const {
  size_t count = 1;
  const uintptr_t end = address + size;
  for (uintptr_t at = next_seam(address, end); at < end; at = next_seam(at, end)) ++count;
  return count;
}

void Mappings::note_moved(uintptr_t to) {
  add_seam(to);
  ++moved_;
}

void Mappings::note_region(const Region& region, size_t fresh) {
  ++borders_;
  if (region.gathered) borders_ += moved_;
  if (fresh == 0) return;
  ++borders_;
  if (fresh != region.length) add_seam(region.end() - fresh);
}

void Mappings::note_retired(const Region& region, uintptr_t from, uintptr_t to) {
  const bool kept_below = from != region.base && !marks_.is_retired(from - os::page_size(), 1);
  const bool kept_above = to != region.end() && !marks_.is_retired(to, 1);
  const bool was_border_below = !kept_below || is_seam(from);
  const bool was_border_above = !kept_above || is_seam(to);
  if (kept_below) ++borders_;
  if (kept_above) ++borders_;
  if (was_border_below) --borders_;
  if (was_border_above) --borders_;
  for (uintptr_t at = next_seam(from, to); at < to; at = next_seam(at, to)) --borders_;
}

}  // namespace rdmalloc
