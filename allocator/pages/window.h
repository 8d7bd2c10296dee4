// The one reserved address range from which all of malloc's memory comes. Addresses are carved from
// its two ends: upwards for ordinary regions, downwards for exposed ones. So all exposed memory
// lies above all other memory, wherever the two meet. A region's addresses are never carved again.
//
// carve() runs inside malloc; contains() anywhere, without a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/status.h"

namespace rdmalloc {

class Window {
 public:
  // Regions start at multiples of this, so that the region of an address is an array index away,
  // and huge pages fit. It costs address space only.
  static constexpr size_t kGranuleShift = 21;
  static constexpr size_t kGranule = size_t{1} << kGranuleShift;
  static constexpr size_t kSmallest = size_t{8} << 20;

  constexpr Window() = default;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Reserves `wanted` bytes, or half of it, or half of that, and so on, as RLIMIT_AS and the kernel
  // allow. kNoMemory below kSmallest. Before there are threads.
  Status reserve(size_t wanted) NO_THREAD_SAFETY_ANALYSIS;

  // Undoes reserve(): the window is empty again. Its addresses stay reserved, for nobody.
  void abandon() NO_THREAD_SAFETY_ANALYSIS { size_ = top_ = 0; }

  // The next free addresses at that end, at a granule. A gap follows every carved range, so that
  // neither the page heap nor a registration cache can take two regions for one. Null: too few are
  // left, or the alignment is above 64 GiB.
  enum class End : uint8_t { kLow, kHigh };
  void* carve(size_t bytes, size_t alignment = kGranule, End end = End::kLow) REQUIRES(growth_lock);

  // Undoes the last carve() at an end, if nobody was given the memory.
  void give_back(void* address, size_t bytes) REQUIRES(growth_lock);

  bool contains(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - base_ < size_;
  }
  size_t granule_of(const void* pointer) const {
    return (reinterpret_cast<uintptr_t>(pointer) - base_) >> kGranuleShift;
  }
  size_t granules() const { return size_ >> kGranuleShift; }
  uintptr_t base() const { return base_; }
  size_t size() const { return size_; }
  size_t carved() const REQUIRES(growth_lock) { return carved_; }
  // Bytes between the two ends, in no region.
  size_t left() const REQUIRES(growth_lock) { return top_ - carved_; }

 private:
  uintptr_t base_ = 0;
  size_t size_ = 0;
  size_t carved_ GUARDED_BY(growth_lock) = 0;  // bytes from the base, upwards
  size_t top_ GUARDED_BY(growth_lock) = 0;     // bytes from the base to what was carved downwards
};

}  // namespace rdmalloc
