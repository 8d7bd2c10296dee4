// How many keys of a domain are in use, by region: counts of keys that were handed out and not let
// go of, so that registrations which nobody uses can be given back. For domains all of whose keys
// are handed out by KeyHolds::hold.
//
// No locks: a count has a bit that says "being given back", which only a count of zero can get. So
// when one thread asks for a key while another gives the region back, one of them wins and the
// other sees it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"

namespace rdmalloc {

class KeyUses {
 public:
  constexpr KeyUses() = default;
  KeyUses(const KeyUses&) = delete;
  KeyUses& operator=(const KeyUses&) = delete;

  // To be called first, and once: makes room for so many regions. False: there is no memory.
  bool make_room(size_t regions) {
    if (counts_ == nullptr) {
      counts_ = static_cast<Count*>(os::map_metadata(regions * sizeof(Count)));
    }
    return counts_ != nullptr;
  }
  // Forgets all uses in the first `regions`, whoever had them: the domain is opened again.
  void forget(size_t regions) {
    for (size_t i = 0; i < regions; ++i) {
      counts_[i].whole.store(0, std::memory_order_relaxed);
      counts_[i].parts.store(0, std::memory_order_relaxed);
    }
  }

  // To be called before a key of the region is looked up. False: it is being given back; do not
  // look it up. Otherwise end() must follow.
  bool begin(uint16_t region) {
    std::atomic<uint32_t>& whole = counts_[region].whole;
    if ((whole.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) return true;
    whole.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  // What to pass to end(): for a key of the region or a piece of it, or for a key of a part that
  // was registered ahead of the region.
  uint32_t use_of_whole(uint16_t region) const { return region * 2U; }
  uint32_t use_of_part(uint16_t region) {
    counts_[region].parts.fetch_add(1, std::memory_order_relaxed);
    end(use_of_whole(region));
    return region * 2U + 1;
  }
  void end(uint32_t use) {
    Count& count = counts_[use / 2];
    (use % 2 != 0 ? count.parts : count.whole).fetch_sub(1, std::memory_order_release);
  }

  // Nobody uses the region's own keys, nor can anybody until open(). False: somebody does, or
  // another thread has closed it.
  bool close(uint16_t region) {
    uint32_t none = 0;
    return counts_[region].whole.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel);
  }
  void open(uint16_t region) {
    counts_[region].whole.fetch_sub(kClosed, std::memory_order_release);
  }
  // True only for the moment, unless the region is closed.
  bool is_unused(uint16_t region) const {
    return counts_[region].whole.load(std::memory_order_relaxed) == 0;
  }
  // While the region is closed, no further part comes into use.
  bool are_parts_unused(uint16_t region) const {
    return counts_[region].parts.load(std::memory_order_acquire) == 0;
  }

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  struct Count {
    std::atomic<uint32_t> whole{0};
    std::atomic<uint32_t> parts{0};
  };

  Count* counts_ = nullptr;  // kept when the domain is closed, for the next one
};

}  // namespace rdmalloc
