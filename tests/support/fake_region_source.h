// Regions without a heap: a window of reserved addresses, and regions that a test adds by hand.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "regcache/region_source.h"
#include "tests/support/fake_os.h"

namespace rdmalloc::fake {

class RegionSource final : public rdmalloc::RegionSource {
 public:
  RegionSource() {
    reset();
    if (!ok(window_.reserve(size_t{1} << 36)) || !ok(table_.boot())) {
      throw std::runtime_error("no address space for the test's window");
    }
  }
  ~RegionSource() { reset(); }
  RegionSource(const RegionSource&) = delete;
  RegionSource& operator=(const RegionSource&) = delete;

  // Called by one thread at a time, as under the heap's growth lock.
  const Region& acquire(size_t length, RegionKind kind = RegionKind::kPinned,
                        bool exposed = false) {
    Region region;
    region.base = reinterpret_cast<uintptr_t>(window_.carve(length));
    region.length = length;
    region.kind = kind;
    region.locked = kind == RegionKind::kPinned;
    region.exposed = exposed;
    const Region& added = *table_.add(region);
    for (RegionObserver* observer : observers_) observer->on_acquire(added);
    return added;
  }

  void fork() {
    for (RegionObserver* observer : observers_) observer->on_fork_child();
  }

  Status attach(RegionObserver* observer) noexcept override {
    for (const RegionObserver* known : observers_) {
      if (known == observer) return Status::kOk;
    }
    for (size_t i = 0; i < table_.size(); ++i) observer->on_acquire(table_[i]);
    observers_.push_back(observer);
    return Status::kOk;
  }
  const RegionTable& regions() const noexcept override { return table_; }
  const Window& window() const noexcept override { return window_; }
  uint64_t pin_limit() const noexcept override { return limit; }
  bool warns() const noexcept override { return false; }

  uint64_t limit = UINT64_MAX;

 private:
  Window window_;
  RegionTable table_{window_};
  std::vector<RegionObserver*> observers_;
};

}  // namespace rdmalloc::fake
