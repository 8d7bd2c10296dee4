// What the registrations of all domains pin in this process, compared with its memlock limit. It is
// charged before the backend is called, so that the sum never exceeds the limit. Lock-free, because
// that happens inside malloc.
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

  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  // Returns the previous limit.
  uint64_t exchange_limit(uint64_t bytes) { return limit_.exchange(bytes); }

  // Sets permanently the function that can give up memory that is pinned but not in use: at least
  // this many bytes that make room for what is charged in this way, or nothing (false).
  enum class Doing : uint8_t { kAsking, kReclaiming };
  using Reclaim = bool (*)(void* context, int charges, size_t bytes, Doing doing);
  void set_reclaimer(Reclaim reclaimer, void* context) {
    context_.store(context, std::memory_order_relaxed);
    reclaim_.store(reclaimer, std::memory_order_release);
  }
  // True: memory was given up, so that a charge may succeed now; or, for kAsking, it could be.
  // Never inside malloc.
  bool reclaim(int charges, size_t bytes, Doing doing = Doing::kReclaiming) {
    const Reclaim reclaimer = reclaim_.load(std::memory_order_acquire);
    return reclaimer != nullptr &&
           reclaimer(context_.load(std::memory_order_relaxed), charges, bytes, doing);
  }

  // Whether giving up what is charged in one way makes room for what is charged in another.
  static constexpr bool makes_room_for(int given_up, int charges) {
    return given_up == charges || (charges == RDM_CHARGES_PROCESS && given_up == RDM_CHARGES_USER);
  }

  // By how many bytes charge() would exceed the limit.
  uint64_t shortfall(int charges, size_t bytes) const {
    if (charges == RDM_CHARGES_NOTHING) return 0;
    const uint64_t all = charges == RDM_CHARGES_PROCESS ? pinned() : pinned_[1].load();
    const uint64_t most = limit();
    return all + bytes > most ? all + bytes - most : 0;
  }

  // False, and nothing is charged: it would exceed the limit, or leave less than `free` of it. The
  // kernel compares a registration that is charged to the process with all that the process has
  // pinned, and one that is charged to the user with what the user has pinned.
  bool charge(int charges, size_t bytes, size_t free = 0) {
    if (charges == RDM_CHARGES_NOTHING) return true;
    std::atomic<uint64_t>& pinned = pinned_[charges == RDM_CHARGES_USER];
    const uint64_t before = pinned.fetch_add(bytes, std::memory_order_relaxed);
    const uint64_t others = charges == RDM_CHARGES_PROCESS ? pinned_[1].load() : 0;
    if (before + others + bytes + free <= limit()) return true;
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

  // The program's own registration is about to be tried with the room that was made for it. Until
  // it ends, domains register no region, because that would take the room. True: so is another
  // thread's.
  bool begin_yielding() { return yielding_.fetch_add(1, std::memory_order_acq_rel) != 0; }
  void end_yielding() {
    uint32_t now = yielding_.load(std::memory_order_relaxed);
    // In a child that a driver forked meanwhile, nobody yields.
    while (now != 0 && !yielding_.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel)) {
    }
  }
  bool is_yielding() const { return yielding_.load(std::memory_order_acquire) != 0; }

  // In the child of a fork: pins are not inherited.
  void clear() {
    yielding_ = 0;
    pinned_[0] = 0;
    pinned_[1] = 0;
  }

 private:
  std::atomic<uint64_t> limit_{UINT64_MAX};
  std::atomic<uint64_t> pinned_[2] = {};  // by process, by user
  std::atomic<uint32_t> yielding_{0};
  std::atomic<Reclaim> reclaim_{nullptr};
  std::atomic<void*> context_{nullptr};
};

}  // namespace rdmalloc
