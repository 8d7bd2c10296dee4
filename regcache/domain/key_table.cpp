#include "regcache/domain/key_table.h"

#include "allocator/os/memory.h"

namespace rdmalloc {

bool KeyTable::make(const RegionTable& regions, const Window& window) {
  if (entries_ != nullptr) return true;
  entries_ = static_cast<KeyEntry*>(os::map_metadata((regions.capacity() + 1) * sizeof(KeyEntry)));
  if (entries_ == nullptr) return false;
  by_stretch_ = regions.whole_by_stretch();
  window_base_ = window.base();
  window_size_ = window.size();
  return true;
}

void KeyTable::clear(const RegionTable& regions) {
  for (size_t i = 0; i < regions.size(); ++i) {
    KeyEntry& entry = entry_of(regions[i]);
    entry.length = 0;
    entry.pieces = 0;
    entry.set_short(false);
    entry.forget_refusals();
    entry.state = kUnregistered;
  }
}

bool KeyTable::validate(const RegionTable& regions, size_t* count) const {
  *count = 0;
  for (size_t i = 0; i < regions.size(); ++i) {
    const KeyEntry& entry = entry_of(regions[i]);
    const size_t length = entry.length.load();
    const uint32_t state = entry.state.load();
    if (state == kBusy) return false;
    if (state != kRegistered && (length != 0 || entry.pieces != 0)) return false;
    if (length != 0 && (entry.pieces != 0 || entry.base != regions[i].base)) return false;
    if (length > regions[i].length) return false;
    *count += length != 0 ? 1 : 0;
    for (uint32_t p = 0; p < entry.pieces; ++p) *count += entry.piece[p].length != 0 ? 1 : 0;
  }
  return entries_[0].length == 0;
}

}  // namespace rdmalloc
