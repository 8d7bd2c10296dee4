#include "regcache/domain/early_parts.h"

#include <new>

#include "allocator/os/memory.h"

namespace rdmalloc {

// Two threads may both map it, one of them in vain: that wastes a few pages, once.
bool EarlyParts::make_room() {
  if (slots_.load(std::memory_order_acquire) != nullptr) return true;
  void* const memory = os::map_metadata(kMost * sizeof(Slot));
  if (memory == nullptr) return false;
  Slot* none = nullptr;
  (void)slots_.compare_exchange_strong(none, new (memory) Slot[kMost], std::memory_order_acq_rel);
  return true;
}

bool EarlyParts::read(const Slot& slot, uint32_t* region, Part* out) {
  const uint32_t before = slot.stamp.load(std::memory_order_acquire);
  if ((before & kWriting) != 0) return false;
  *region = slot.region.load(std::memory_order_acquire);
  out->base = slot.base.load(std::memory_order_acquire);
  out->length = slot.length.load(std::memory_order_acquire);
  out->key = {slot.lkey.load(std::memory_order_acquire), slot.rkey.load(std::memory_order_acquire),
              slot.handle.load(std::memory_order_acquire)};
  return slot.stamp.load(std::memory_order_relaxed) == before && out->length != 0;
}

// On success this thread alone may write the slot. `is_used` says whether the slot must hold a part
// or be free.
bool EarlyParts::begin(Slot& slot, bool is_used) {
  uint32_t stamp = slot.stamp.load(std::memory_order_acquire);
  if ((stamp & kWriting) != 0 ||
      !slot.stamp.compare_exchange_strong(stamp, stamp | kWriting, std::memory_order_acq_rel)) {
    return false;
  }
  if ((slot.length.load(std::memory_order_acquire) != 0) == is_used) return true;
  end(slot);
  return false;
}

bool EarlyParts::add(uint16_t region, const Part& part) {
  if (!make_room()) return false;
  Slot* const slots = slots_.load(std::memory_order_acquire);
  for (size_t i = 0; i < kMost; ++i) {
    Slot& slot = slots[i];
    if (!begin(slot, false)) continue;
    slot.region.store(region, std::memory_order_release);
    slot.base.store(part.base, std::memory_order_release);
    slot.lkey.store(part.key.lkey, std::memory_order_release);
    slot.rkey.store(part.key.rkey, std::memory_order_release);
    slot.handle.store(part.key.handle, std::memory_order_release);
    slot.length.store(part.length, std::memory_order_release);
    for (size_t used = used_.load(); used <= i && !used_.compare_exchange_weak(used, i + 1);) {
    }
    count_.fetch_add(1, std::memory_order_release);
    end(slot);
    return true;
  }
  return false;
}

template <typename Which>
bool EarlyParts::find_slot(Which which, Part* out) const {
  if (count() == 0) return false;
  const Slot* const slots = slots_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used_.load(std::memory_order_acquire); ++i) {
    uint32_t region = 0;
    Part part;
    if (!read(slots[i], &region, &part) || !which(region, part)) continue;
    *out = part;
    return true;
  }
  return false;
}

bool EarlyParts::take_of(uint16_t wanted, Part* out) {
  if (count() == 0) return false;
  Slot* const slots = slots_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used_.load(std::memory_order_acquire); ++i) {
    uint32_t region = 0;
    if (!read(slots[i], &region, out) || region != wanted || !begin(slots[i], true)) continue;
    // Before this thread claimed the slot, another may have replaced the part that was read.
    *out = {slots[i].base.load(std::memory_order_relaxed),
            slots[i].length.load(std::memory_order_relaxed),
            {slots[i].lkey.load(std::memory_order_relaxed),
             slots[i].rkey.load(std::memory_order_relaxed),
             slots[i].handle.load(std::memory_order_relaxed)}};
    const bool is_it = slots[i].region.load(std::memory_order_relaxed) == wanted;
    if (is_it) {
      slots[i].length.store(0, std::memory_order_release);
      count_.fetch_sub(1, std::memory_order_release);
    }
    end(slots[i]);
    if (is_it) return true;
  }
  return false;
}

bool EarlyParts::find(uintptr_t address, size_t length, Part* out) const {
  return find_slot([&](uint32_t, const Part& part) { return part.covers(address, length); }, out);
}

bool EarlyParts::has_key(const rdm_mr& mr) const {
  Part ignored;
  return find_slot(
      [&](uint32_t, const Part& part) {
        return part.key.lkey == mr.lkey && part.key.rkey == mr.rkey && part.key.handle == mr.handle;
      },
      &ignored);
}

bool EarlyParts::has_of(uint16_t region) const {
  Part ignored;
  return find_slot([&](uint32_t its, const Part&) { return its == region; }, &ignored);
}

void EarlyParts::clear() {
  Slot* const slots = slots_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i) {
    slots[i].stamp.store(0, std::memory_order_relaxed);
    slots[i].length.store(0, std::memory_order_relaxed);
  }
  used_ = 0;
  count_ = 0;
}

}  // namespace rdmalloc
