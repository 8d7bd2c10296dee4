// What the registrations of all domains pin in this process, against its memlock limit. Charged
// before the backend is called, so that the sum never exceeds the limit; lock-free, because that
// happens inside malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"

namespace rdmalloc {

class PinAccount {
 public:
  constexpr PinAccount() = default;
  PinAccount(const PinAccount&) = delete;
  PinAccount& operator=(const PinAccount&) = delete;

  void set_limit(uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  // The one before.
  uint64_t exchange_limit(uint64_t bytes) { return limit_.exchange(bytes); }

  // Who can give up what is pinned and not in use; for good. At least so many bytes that make room
  // for what is charged so or, false, nothing.
  enum class Doing : uint8_t { kAsking, kReclaiming };
  using Reclaim = bool (*)(void* context, int charges, size_t bytes, Doing doing);
  void set_reclaimer(Reclaim reclaimer, void* context) {
    context_.store(context, std::memory_order_relaxed);
    reclaim_.store(reclaimer, std::memory_order_release);
  }
  // True: given up, so that a charge may succeed now; or, asking, that it can be. Never inside
  // malloc.
  bool reclaim(int charges, size_t bytes, Doing doing = Doing::kReclaiming) {
    const Reclaim reclaimer = reclaim_.load(std::memory_order_acquire);
    return reclaimer != nullptr &&
           reclaimer(context_.load(std::memory_order_relaxed), charges, bytes, doing);
  }

  // Whether giving up what is charged in one way makes room for what is charged in another.
  static constexpr bool makes_room_for(int given_up, int charges) {
    return given_up == charges || (charges == RDM_CHARGES_PROCESS && given_up == RDM_CHARGES_USER);
  }

  // How many bytes too many are pinned for charge() to succeed.
  uint64_t shortfall(int charges, size_t bytes) const {
    if (charges == RDM_CHARGES_NOTHING) return 0;
    const uint64_t all = charges == RDM_CHARGES_PROCESS ? pinned() : pinned_[1].load();
    const uint64_t most = limit();
    return all + bytes > most ? all + bytes - most : 0;
  }

  // False, and nothing is charged: beyond the limit. The kernel compares a process's registration
  // with all that the process has pinned, and a user's with what the user has.
  bool charge(int charges, size_t bytes) {
    if (charges == RDM_CHARGES_NOTHING) return true;
    std::atomic<uint64_t>& pinned = pinned_[charges == RDM_CHARGES_USER];
    const uint64_t before = pinned.fetch_add(bytes, std::memory_order_relaxed);
    const uint64_t others = charges == RDM_CHARGES_PROCESS ? pinned_[1].load() : 0;
    if (before + others + bytes <= limit()) return true;
    pinned.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }

  void release(int charges, size_t bytes) {
    if (charges == RDM_CHARGES_NOTHING) return;
    pinned_[charges == RDM_CHARGES_USER].fetch_sub(bytes, std::memory_order_relaxed);
  }

  // Both together: what VmPin shows.
  uint64_t pinned() const {
    return pinned_[0].load(std::memory_order_relaxed) + pinned_[1].load(std::memory_order_relaxed);
  }

  // In the child of a fork: pins are not inherited.
  void clear() {
    pinned_[0] = 0;
    pinned_[1] = 0;
  }

 private:
  std::atomic<uint64_t> limit_{UINT64_MAX};
  std::atomic<uint64_t> pinned_[2] = {};  // by process, by user
  std::atomic<Reclaim> reclaim_{nullptr};
  std::atomic<void*> context_{nullptr};
};

}  // namespace rdmalloc
