// Parts of large regions that were registered ahead of the rest, because a lookup came before the
// region was registered. A part's key is good as long as the region's own key: until the region has
// lost its pages, or the domain is closed.
//
// Readers take no lock. A slot's stamp is even while its part may be read, and changes with each
// part that the slot holds. The fields are read with acquire order and written with release order,
// so an unchanged stamp means that nothing else changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/region.h"
#include "include/rdmalloc/backend.h"

namespace rdmalloc {

class EarlyParts {
 public:
  // Parts begin and end at multiples of this from their region's start: registering one is quick,
  // and a few hundred make up a large region.
  static constexpr size_t kUnit = size_t{8} << 20;
  // Lookups wait for smaller regions.
  static constexpr size_t kLeastRegion = 4 * kUnit;

  struct Part {
    uintptr_t base = 0;
    size_t length = 0;
    rdm_backend_key key{};
    bool covers(uintptr_t address, size_t bytes) const {
      return address - base < length && bytes <= length - (address - base);
    }
  };

  constexpr EarlyParts() = default;
  EarlyParts(const EarlyParts&) = delete;
  EarlyParts& operator=(const EarlyParts&) = delete;

  // False: there is no room for another.
  bool add(uint16_t region, const Part& part);
  bool is_half_full() const { return count_.load(std::memory_order_relaxed) >= kMost / 2; }
  bool has_room() { return count_.load(std::memory_order_relaxed) < kMost && make_room(); }

  // A part that covers the range.
  bool find(uintptr_t address, size_t length, Part* out) const;
  bool has_key(const rdm_mr& mr) const;
  bool has_of(uint16_t region) const;

  // Takes a part of that region out. False: it has none.
  bool take_of(uint16_t wanted, Part* out);

  // In the child of a fork.
  void clear();

  size_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  static constexpr size_t kMost = 512;
  static constexpr uint32_t kWriting = 1;  // in the stamp: by one thread; nobody reads

  struct Slot {
    std::atomic<uint32_t> stamp{0};
    std::atomic<uint32_t> region{0};
    std::atomic<uintptr_t> base{0};
    std::atomic<size_t> length{0};  // 0: no part
    std::atomic<uint32_t> lkey{0};
    std::atomic<uint32_t> rkey{0};
    std::atomic<void*> handle{nullptr};
  };

  bool make_room();
  static bool read(const Slot& slot, uint32_t* region, Part* out);
  static bool begin(Slot& slot, bool is_used);
  static void end(Slot& slot) { slot.stamp.fetch_add(1, std::memory_order_release); }
  template <typename Which>
  bool find_slot(Which which, Part* out) const;

  std::atomic<Slot*> slots_{nullptr};  // kept when the domain is closed, for the next one
  std::atomic<size_t> used_{0};        // slots that ever had a part
  std::atomic<size_t> count_{0};
};

}  // namespace rdmalloc
