// A device that keeps the pages it is given, as hardware does: a ring with a table of fixed
// buffers. A transfer through a registration uses the pages present when it was made.
//
// One transfer or registration at a time, from any thread. Its room can be limited.
#pragma once

#include <liburing.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "tests/integration/regcache/foreign/foreign.h"

namespace probe {

class PagesDevice {
 public:
  explicit PagesDevice(size_t room) : device_(room), lengths_(kSlots) {
    if (io_uring_register_buffers_sparse(device_.ring(), kSlots) != 0) {
      skip("io_uring has no sparse table of fixed buffers here (Linux 5.19)");
    }
    for (unsigned slot = kSlots; slot-- > 0;) free_.push_back(slot);
  }
  PagesDevice(const PagesDevice&) = delete;
  PagesDevice& operator=(const PagesDevice&) = delete;

  // Null if there is no room.
  void* add(const void* address, size_t length) {
    const std::lock_guard hold(mutex_);
    if (free_.empty() || bytes_ + length > most_) return nullptr;
    const uintptr_t from = reinterpret_cast<uintptr_t>(address) & ~(kPage - 1);
    const uintptr_t to = reinterpret_cast<uintptr_t>(address) + length;
    const unsigned slot = free_.back();
    if (!set(slot, {reinterpret_cast<void*>(from), to - from})) return nullptr;
    free_.pop_back();
    bytes_ += lengths_[slot] = length;
    return reinterpret_cast<void*>(uintptr_t{slot} + 1);
  }
  void remove(void* pages) {
    const std::lock_guard hold(mutex_);
    const unsigned slot = slot_of(pages);
    (void)set(slot, {nullptr, 0});
    bytes_ -= lengths_[slot];
    free_.push_back(slot);
  }

  // Calls judge(peer) with what the device reads; false if it read nothing.
  template <typename Judge>
  bool send(void* pages, const void* address, size_t length, Judge judge) {
    const std::lock_guard hold(mutex_);
    if (device_.send(slot_of(pages), address, length) != 0) return false;
    judge(device_.peer());
    return true;
  }
  // The device writes what make(peer) leaves there.
  template <typename Make>
  bool receive(void* pages, void* address, size_t length, Make make) {
    const std::lock_guard hold(mutex_);
    make(device_.peer());
    return device_.receive(slot_of(pages), address, length) == 0;
  }

  // Existing registrations stay; new ones may not exceed this total.
  void set_most(size_t bytes) { most_ = bytes; }
  size_t registrations() {
    const std::lock_guard hold(mutex_);
    return kSlots - free_.size();
  }

 private:
  static constexpr unsigned kSlots = 8192;

  static unsigned slot_of(void* pages) {
    return static_cast<unsigned>(reinterpret_cast<uintptr_t>(pages) - 1);
  }
  bool set(unsigned slot, iovec buffer) {
    __u64 tag = 0;
    return io_uring_register_buffers_update_tag(device_.ring(), slot, &buffer, &tag, 1) == 1;
  }

  std::mutex mutex_;
  Device device_;
  std::vector<size_t> lengths_;
  std::vector<unsigned> free_;
  size_t bytes_ = 0;
  std::atomic<size_t> most_{SIZE_MAX};
};

}  // namespace probe
