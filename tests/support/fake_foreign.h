// Fake foreign memory and a device that registers it. Pages count their changes, and a registration
// remembers those counts from when it was made. The device refuses and fails when told to, and
// records what a correct cache never does. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "include/rdmalloc/backend.h"
#include "regcache/foreign/foreign_cache.h"

namespace rdmalloc::fake {

class Pages {
 public:
  static constexpr size_t kCount = 64;
  static constexpr size_t kSize = 4096;
  static constexpr uintptr_t kBase = uintptr_t{0x5a5a} << 28;

  static uintptr_t number(size_t page) { return kBase + page * kSize; }
  static void* at(size_t page, size_t offset = 0) {
    return reinterpret_cast<void*>(number(page) + offset);
  }
  uint32_t version(size_t page) const { return versions_[page].load(std::memory_order_acquire); }

  // Reports the change to `changes` as a system call would; `meanwhile` runs between the report and
  // the change.
  void change(size_t first, size_t count, const std::function<void()>& meanwhile = {});

 private:
  std::atomic<uint32_t> versions_[kCount] = {};
};

// A registration as the device sees it. It lives as long as the device and serves as the handle of
// the memory region.
struct Registration {
  uintptr_t base = 0;
  size_t length = 0;
  uint64_t number = 0;  // in order of creation, from one
  std::atomic<bool> is_registered{true};
  std::array<uint32_t, Pages::kCount> seen{};  // versions of all pages when it was made

  uintptr_t end() const { return base + length; }
  bool overlaps(uintptr_t from, uintptr_t to) const { return base < to && from < end(); }
  bool covers(uintptr_t from, uintptr_t to) const { return base <= from && to <= end(); }
  static Registration& of(const rdm_mr& mr) { return *static_cast<Registration*>(mr.handle); }
};

// Blocks callers until it is opened.
class Gate {
 public:
  void shut();
  void open();
  void pass();
  void wait_until_held(int threads);

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  bool is_shut_ = false;
  int held_ = 0;
};

class ForeignDevice final : public rdmalloc::ForeignDevice {
 public:
  explicit ForeignDevice(const Pages* pages) : pages_(pages) {}

  // Its properties; set while nobody uses it.
  size_t unit = Pages::kSize;
  size_t longest = SIZE_MAX;
  bool refuses_overlaps = false;
  bool runs_in_malloc = true;
  bool is_late = false;
  // Its room. When full, it answers as a domain does: RDM_NOT_REGISTERED, RDM_OUT_OF_BUDGET.
  std::atomic<size_t> room_count{SIZE_MAX};
  std::atomic<size_t> room_bytes{SIZE_MAX};
  // What the cache has promised to stay within; exceeding it is a violation.
  std::atomic<size_t> promised_count{SIZE_MAX};
  std::atomic<size_t> promised_bytes{SIZE_MAX};

  // Faults: the k-th call from now on fails, once; this many deregistrations are refused; this many
  // are put off.
  std::atomic<int> fail_in{0};
  std::atomic<int> fail_status{RDM_SYSTEM};
  std::atomic<int> keep{0};
  std::atomic<int> later{0};
  std::atomic<int> deregister_later{0};

  Gate registering;    // passed before memory is read, ...
  Gate registered;     // ... and after
  Gate deregistering;  // passed before anything else

  // Called without locks: before memory is read, after it, when a registration is gone, and when
  // deregistering it failed.
  std::function<void(uintptr_t base, size_t length)> before;
  std::function<void(Registration&)> after;
  std::function<void(Registration&)> gone;
  std::function<void(Registration&)> kept;
  // Stands for other caches of the same budget.
  std::function<bool(size_t bytes)> reclaimer;
  std::atomic<size_t> reclaimable{SIZE_MAX};  // if everything idle were released

  std::vector<Registration*> now() const;  // by number
  size_t count() const;
  size_t bytes() const;
  uint64_t calls() const { return calls_; }  // of register_foreign
  uint64_t put_off_count() const { return put_offs_; }
  std::vector<std::string> violations() const;
  void forget_all();  // as in a child of fork: the registrations are the parent's

  int register_foreign(uintptr_t base, size_t length, size_t room, rdm_backend_key* key, char* why,
                       size_t why_size) override;
  int deregister_foreign(size_t length, const rdm_backend_key& key, bool keeps_room) override;
  void put_off() override { ++put_offs_; }
  bool reclaim(size_t bytes) override { return reclaimer && reclaimer(bytes); }
  bool may_reclaim(size_t bytes) override { return bytes <= reclaimable; }
  size_t alignment() const override { return unit; }
  size_t max_length() const override { return longest; }
  bool may_run_in_malloc() const override { return runs_in_malloc; }
  bool unpins_late() const override { return is_late; }

 private:
  int refusal(uintptr_t base, size_t length);
  void check(uintptr_t base, size_t length);

  const Pages* pages_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Registration>> all_;
  std::vector<Registration*> now_;
  size_t bytes_ = 0;
  size_t kept_count_ = 0;  // room that is kept for the next registration
  size_t kept_bytes_ = 0;
  std::vector<std::string> violations_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> put_offs_{0};
};

// Forwards changes to one cache at a time; attaches itself to `changes` on first use.
void set_changed_cache(ForeignCache* cache);

}  // namespace rdmalloc::fake
