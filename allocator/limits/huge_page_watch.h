// Measures whether transparent huge pages pay (RDMALLOC_HUGE=auto), where pages are populated
// anyway. If they take longer than the same number of bytes in base pages (in a virtual machine
// whose host has none left, or because the kernel compacts memory first), or if they are
// unavailable, the process returns to base pages permanently.
//
// note() is called inside malloc, under no lock, by the thread that populates; a lost update loses
// only one measurement.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"

namespace rdmalloc {

class HugePageWatch {
 public:
  enum class Finding : uint8_t { kNone, kFaster, kSlower, kMissing, kTooLarge };

  constexpr HugePageWatch() = default;
  HugePageWatch(const HugePageWatch&) = delete;
  HugePageWatch& operator=(const HugePageWatch&) = delete;

  // Larger ones are not tried: a heap that is asked for a few MiB would get one for it, whole.
  static constexpr size_t kLargestPage = size_t{32} << 20;

  // `choice`: the value of the option huge; only auto is watched. Called once.
  void boot(uint64_t choice);

  // Populates the range as os::populate() does, and notes the time and the faults it took.
  Status populate(os::PageKind kind, void* address, size_t bytes);

  // Populating `bytes` took `ns` nanoseconds and `faults` page faults.
  void note(os::PageKind kind, size_t bytes, uint64_t ns, uint64_t faults);

  // True as long as another measurement may change the decision.
  bool is_on() const { return is_on_ && !has_gone_back(); }
  // Too little has been measured to continue in large steps.
  bool is_on_trial() const { return is_on() && finding() == Finding::kNone; }
  // The time for base pages is known, so that huge pages can be compared with it.
  bool can_tell() const { return base_ns_.load(std::memory_order_relaxed) != 0; }
  bool has_gone_back() const { return finding() > Finding::kFaster; }
  Finding finding() const { return finding_.load(std::memory_order_relaxed); }
  // The option's value; with auto, also the outcome.
  const char* text() const;

  // Bytes that are measured before the decision.
  static size_t trial() { return 2 * os::page_size_of(os::PageKind::kTransparentHuge); }

 private:
  void note_base(size_t bytes, uint64_t ns, uint64_t faults);
  void note_huge(size_t bytes, uint64_t ns, uint64_t faults);

  uint64_t choice_ = 0;
  bool is_on_ = false;
  std::atomic<Finding> finding_{Finding::kNone};
  std::atomic<uint64_t> base_ns_{0};  // the shortest for a MiB of base pages; 0: not known
  std::atomic<uint64_t> ns_{0};       // spent on populating huge pages
  std::atomic<size_t> bytes_{0};      // populated in huge pages
};

}  // namespace rdmalloc
