// Which regions are asked for in huge pages (RDMALLOC_HUGE), and with `auto`, whether that pays.
//
// A huge page comes whole, whichever byte of it is touched. So `auto` asks for them where all pages
// come at once, and else for a heap of some size whose programs touched what they were given: not
// in small processes, and not for tables of which little is ever used. And it watches: where huge
// pages take longer than base pages for as many bytes (a virtual machine whose host has none left,
// a kernel that compacts memory first), or are not to be had, it goes back to base pages for good.
//
// Runs inside malloc. note() is called under no lock, by whoever populates; a lost update is one
// measurement less.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class HugePages {
 public:
  // What is known of transparent huge pages with `auto`.
  enum class Finding : uint8_t { kNone, kFaster, kSlower, kMissing };

  constexpr HugePages() = default;
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

  // `choice`: of the option huge. Once.
  void boot(uint64_t choice);

  // For a region of that length in a heap that holds so many bytes. `at_once`: it is populated as
  // soon as it is ready.
  os::PageKind kind_for(size_t length, size_t held, bool at_once, const RegionTable& regions,
                        const PageMarks& marks) const REQUIRES(growth_lock);

  // What the user asked for, whatever there is; base pages with auto.
  os::PageKind chosen() const { return kind_; }

  // So many bytes were populated, in so many faults.
  void note(os::PageKind kind, size_t bytes, uint64_t ns, uint64_t faults);

  // True as long as another measurement may change what is done.
  bool is_watching() const { return watches_ && !has_gone_back(); }
  // Too little was measured to go on with large steps.
  bool is_on_trial() const { return is_watching() && finding() == Finding::kNone; }
  bool has_gone_back() const { return finding() > Finding::kFaster; }
  Finding finding() const { return finding_.load(std::memory_order_relaxed); }
  // "off", "thp", "hugetlb", or "auto" and what became of it.
  const char* text() const;

  // Bytes that are measured before it is decided.
  static constexpr size_t kTrial = 2 * os::kHugePageSize;

 private:
  os::PageKind kind_ = os::PageKind::kBase;  // with any other choice than auto
  bool watches_ = false;
  std::atomic<Finding> finding_{Finding::kNone};
  std::atomic<uint64_t> base_ns_{0};  // for a MiB of base pages, at best; 0: not known
  std::atomic<uint64_t> ns_{0};       // for what was populated in huge pages, ...
  std::atomic<size_t> bytes_{0};      // ... so much of it
};

}  // namespace rdmalloc
