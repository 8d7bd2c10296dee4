// Whether transparent huge pages pay, with RDMALLOC_HUGE=auto: measured where pages are populated
// anyway. Where they take longer than base pages for as many bytes (a virtual machine whose host
// has none left, a kernel that compacts memory first), or are not to be had, it is back to base
// pages for good.
//
// note() is called inside malloc, under no lock, by whoever populates; a lost update is one
// measurement less.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"

namespace rdmalloc {

class HugePageWatch {
 public:
  enum class Finding : uint8_t { kNone, kFaster, kSlower, kMissing };

  constexpr HugePageWatch() = default;
  HugePageWatch(const HugePageWatch&) = delete;
  HugePageWatch& operator=(const HugePageWatch&) = delete;

  // `choice`: of the option huge; nothing is watched but with auto. Once.
  void boot(uint64_t choice);

  // Has the range's pages come, as os::populate(), and notes what that took.
  Status populate(os::PageKind kind, void* address, size_t bytes);

  // So many bytes were populated, in so many faults.
  void note(os::PageKind kind, size_t bytes, uint64_t ns, uint64_t faults);

  // True as long as another measurement may change what is done.
  bool is_on() const { return is_on_ && !has_gone_back(); }
  // Too little was measured to go on with large steps.
  bool is_on_trial() const { return is_on() && finding() == Finding::kNone; }
  // Base pages are known to compare with.
  bool can_tell() const { return base_ns_.load(std::memory_order_relaxed) != 0; }
  bool has_gone_back() const { return finding() > Finding::kFaster; }
  Finding finding() const { return finding_.load(std::memory_order_relaxed); }
  // The option's value, and with auto what became of it.
  const char* text() const;

  // Bytes that are measured before it is decided.
  static constexpr size_t kTrial = 2 * os::kHugePageSize;

 private:
  void note_base(size_t bytes, uint64_t ns, uint64_t faults);
  void note_huge(size_t bytes, uint64_t ns, uint64_t faults);

  uint64_t choice_ = 0;
  bool is_on_ = false;
  std::atomic<Finding> finding_{Finding::kNone};
  std::atomic<uint64_t> base_ns_{0};  // for a MiB of base pages, at best; 0: not known
  std::atomic<uint64_t> ns_{0};       // for what was populated in huge pages, ...
  std::atomic<size_t> bytes_{0};      // ... so much of it
};

}  // namespace rdmalloc
