// A heap over the fake system calls, for one test: configure machine() and options, then boot().
#pragma once

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "allocator/pages/heap.h"
#include "allocator/pages/heap_counters.h"
#include "allocator/pages/heap_fork.h"
#include "tests/support/child.h"
#include "tests/support/fake_os.h"
#include "tests/support/heap_check.h"
#include "tests/support/processor.h"

namespace rdmalloc::fake {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;
inline constexpr size_t kGiB = 1024 * kMiB;
inline const size_t kPage = os::page_size();

// A heap's window: 64 GiB, as sanitizers leave no more addresses by default. Small where they are
// limited, for an emulator of programs, which makes a record of each page, anew for each heap. What
// needs more asks for it.
inline bool has_whole_window() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur > 65 * kGiB;
}

// The same, and says so where a case is skipped for it.
inline bool needs_whole_window() {
  if (has_whole_window()) return true;
  puts("SKIPPED: this process may not have 64 GiB of addresses (ulimit -v)");
  return false;
}

class TestHeap {
 public:
  explicit TestHeap(std::initializer_list<const char*> options = {}) {
    reset();
    set(has_whole_window() ? "WINDOW=64G" : "WINDOW=2G");
    set("WARN=off");
    set("COUNTERS_FROM=0");  // no descriptors
    for (const char* option : options) set(option);
  }
  ~TestHeap() {
    heap_.reset();
    reset();
  }
  TestHeap(const TestHeap&) = delete;
  TestHeap& operator=(const TestHeap&) = delete;

  void set(const std::string& option) { environment().push_back("RDMALLOC_" + option); }

  TestHeap& boot() {
    heap_ = std::make_unique<Heap>();
    heap_->boot();
    fake::pretend_processors();
    return *this;
  }

  Heap& operator*() { return *heap_; }
  Heap* operator->() { return heap_.get(); }

  // allocate(), checking that the extent is open and not handed out already.
  void* take(size_t size, size_t alignment = kPage, bool* zero = nullptr) {
    bool wanted = zero != nullptr && *zero;
    void* got = heap_->extents().allocate(nullptr, size, alignment, &wanted);
    if (zero != nullptr) *zero = wanted;
    if (got != nullptr) hold(got, size);
    return got;
  }
  void* take_zeroed(size_t size) {
    bool zero = true;
    return take(size, kPage, &zero);
  }
  bool give(void* address, size_t size) {
    drop(address);
    return heap_->extents().release(address, size);
  }

  // The same for blocks, recorded by their start.
  void* malloc(size_t size, size_t alignment = 1, bool zero = false) {
    void* got = heap_->blocks().allocate(size, alignment, zero);
    if (got != nullptr) hold(got, os::page_ceil(size));
    return got;
  }
  void* malloc_exposed(size_t size, size_t alignment = kPage) {
    void* got = heap_->blocks().allocate_exposed(size, alignment);
    if (got != nullptr) hold(got, os::page_ceil(size));
    return got;
  }
  bool free(void* address) {
    drop(address);
    return heap_->blocks().release(address);
  }
  bool resize(void* address, size_t size) {
    drop(address);
    const bool done = heap_->blocks().resize(address, size);
    hold(address, heap_->blocks().size_of(address));
    return done;
  }
  void* move(void* address, size_t size) {
    const size_t before = heap_->blocks().size_of(address);
    drop(address);
    LargeBlocks& blocks = heap_->blocks();
    void* const moved = blocks.is_worth_moving(before) ? blocks.move(address, size) : nullptr;
    if (moved == nullptr) hold(address, before);
    if (moved != nullptr) hold(moved, os::page_ceil(size));
    return moved;
  }

  // Runs the work in a child, with the library's fork handlers.
  template <typename Work>
  test::ChildEnd run_child(Work work) {
    before_fork(*heap_);
    const pid_t child = test::start_child([&] {
      after_fork_in_child(*heap_);
      return work();
    });
    after_fork_in_parent(*heap_);
    return test::end_of(child);
  }

  const Region& region_of(const void* address) { return *heap_->regions().find(address); }
  const Region& last_region() { return heap_->regions()[heap_->regions().size() - 1]; }

  // As the interposed system calls do.
  ProgramHoles::Hole begin_hole(uintptr_t base, size_t length) {
    heap_->blocks().freed().drain(true);
    return heap_->holes().begin(base, length);
  }

  bool is_retired(const void* address, size_t size) const {
    return heap_->marks().is_retired(reinterpret_cast<uintptr_t>(address), size);
  }

  // Bytes open in the window.
  size_t opened() const {
    const Window& window = heap_->window();
    return opened_in(reinterpret_cast<void*>(window.base()), window.size());
  }

  // Checks that exactly a region's pages are open, and that its lock state agrees with the
  // system's.
  std::string unsound(const Region& region, bool may_mend = false) const {
    size_t open = 0;
    for (const Range& range : ranges_in(reinterpret_cast<void*>(region.base), region.length)) {
      open += range.bytes;
      if (range.locked != region.locked && !(may_mend && region.locked))
        return "a region's lock is not the system's";
      if (range.locked && region.kind != RegionKind::kPinned) return "unpinned, but locked";
      if (range.kind == os::PageKind::kHugetlb && !range.populated) return "hugetlb, not populated";
      if (is_retired(reinterpret_cast<void*>(range.base), range.bytes)) {
        return "retired, but open";
      }
    }
    if (open != region.length - region.retired()) return "a region is not open";
    if (left_in(reinterpret_cast<void*>(region.base), region.length) != region.retired()) {
      return "retired bytes differ";
    }
    return {};
  }

  // Checks that the heap's books are consistent and agree with the system's; empty if so.
  // `may_mend`: block moves were refused half-way, and new pages then fill the gaps, whatever the
  // limits, locked if possible.
  std::string unsound(bool may_mend = false) {
    if (!validate(*heap_)) return "validate() failed";
    if (const auto all = violations(); !all.empty()) return all.front();
    if (vacated() != 0) return "moved away, and not left";
    size_t held = 0;
    size_t pinned = 0;
    for (size_t i = 0; i < heap_->regions().size(); ++i) {
      const Region& region = heap_->regions()[i];
      if (region.is_empty()) continue;
      if (std::string why = unsound(region, may_mend); !why.empty()) return why;
      const size_t bytes = region.length - region.retired();
      held += bytes;
      pinned += region.locked ? bytes : 0;
    }
    if (held != heap_->budget().charges().held() || held != opened()) return "held bytes differ";
    if (pinned != heap_->budget().charges().pinned() || pinned < locked())
      return "pinned bytes differ";
    if (may_mend) return {};
    if (pinned != locked()) return "pinned bytes differ";
    if (pinned > heap_->budget().pin_limit().bytes()) return "more is pinned than may be";
    if (held > heap_->budget().memory().cap()) return "more is held than may be";
    return {};
  }

 private:
  std::unique_ptr<Heap> heap_;
};

inline bool reads_zero(const void* address, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(address);
  // Each byte is the one before. A loop would take most of the time of tests under tsan.
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

}  // namespace rdmalloc::fake
