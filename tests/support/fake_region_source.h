// Regions without a heap: a window of reserved addresses, to which a test adds regions by hand.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "allocator/pages/populate.h"
#include "regcache/domain/region_source.h"
#include "tests/support/fake_os.h"

namespace rdmalloc::fake {

class RegionSource final : public rdmalloc::RegionSource {
 public:
  RegionSource() {
    reset();
    if (!ok(window_.reserve(kAddresses)) || !ok(table_.boot()) || !ok(marks_.boot())) {
      throw std::runtime_error("no address space for the test's window");
    }
  }
  ~RegionSource() { reset(); }
  RegionSource(const RegionSource&) = delete;
  RegionSource& operator=(const RegionSource&) = delete;

  // One caller at a time, as under the heap's growth lock.
  const Region& acquire(size_t length, RegionKind kind = RegionKind::kPinned,
                        bool exposed = false) {
    Region region;
    region.base = reinterpret_cast<uintptr_t>(window_.carve(length));
    region.length = length;
    (void)os::open(reinterpret_cast<void*>(region.base), os::page_ceil(length),
                   os::PageKind::kBase);
    region.kind = kind;
    region.locked = kind == RegionKind::kPinned;
    region.exposed = exposed;
    if (!table_.cover(region) || !marks_.cover(region)) {
      throw std::runtime_error("no memory for the tables of the test's window");
    }
    marks_.add(region);
    const Region& added = *table_.add(region, RegionTable::kNoSlot);
    for (RegionObserver* observer : observers_) observer->on_acquire(added);
    for (RegionObserver* observer : observers_) observer->on_ready(added);
    return added;
  }

  // Part of a region loses its pages, as when blocks are gathered. False: all of it is now retired,
  // and some observer has not released it yet.
  bool retire(const Region& region, size_t offset, size_t size) {
    Region& known = table_[region.index];
    os::close(reinterpret_cast<void*>(region.base + offset), size);
    table_.note_hole(region.base + offset, size);
    marks_.retire(region.base + offset, size);
    known.set_retired(known.retired() + size);
    if (!known.is_empty()) return true;
    table_.remove(known);
    marks_.forget(known);
    bool let_go = true;
    for (RegionObserver* observer : observers_) {
      observer->on_retire(known);
      let_go = observer->has_let_go(known) && let_go;
    }
    return let_go;
  }

  // The program gives up its rights to a part of a region, or takes them back.
  void change(const Region& region, size_t offset, size_t size, bool changed) {
    marks_.set_changed(region.base + offset, size, changed);
  }

  void fork() {
    for (RegionObserver* observer : observers_) observer->on_fork_child();
  }

  Status attach(RegionObserver* observer) noexcept override {
    for (const RegionObserver* known : observers_) {
      if (known == observer) return Status::kOk;
    }
    for (size_t i = 0; i < table_.size(); ++i) {
      if (!table_[i].is_empty()) observer->on_acquire(table_[i]);
    }
    observers_.push_back(observer);
    return Status::kOk;
  }
  const RegionTable& regions() const noexcept override { return table_; }
  const Window& window() const noexcept override { return window_; }
  const PageMarks* marks() const noexcept override { return &marks_; }
  bool populate(const Region& region, PagesFor who) const noexcept override {
    return populate_in_steps(region, who, marks_, budget_, huge_);
  }
  uint64_t pin_limit() const noexcept override { return limit; }
  // Asked while a message is being set.
  bool warns() const noexcept override {
    if (on_warns) on_warns();
    return false;
  }
  std::function<void()> on_warns;

  uint64_t now_ns() const noexcept override { return now; }

  uint64_t limit = UINT64_MAX;
  std::atomic<uint64_t> now{uint64_t{1} << 40};  // stands still unless a test advances it

 private:
  static constexpr size_t kAddresses = size_t{1} << 32;
  Window window_;
  RegionTable table_{window_};
  PageMarks marks_{window_, table_};
  Budget budget_;
  mutable HugePageWatch huge_;
  std::vector<RegionObserver*> observers_;
};

inline void* at(const Region& region, size_t offset = 0) {
  return reinterpret_cast<void*>(region.base + offset);
}

}  // namespace rdmalloc::fake
