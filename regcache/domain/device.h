// The one door to a device: its backend and that one's context, the limits that it told, how many
// memory regions (MRs) it has, and what they are charged to. All that a domain registers comes
// through here, regions and foreign memory alike.
//
// Takes no lock. Any thread, while the domain is open; inside malloc too if the backend may run
// there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"
#include "regcache/domain/pin_account.h"
#include "regcache/domain/retries.h"
#include "regcache/lock_order.h"

namespace rdmalloc {

class Device {
 public:
  constexpr Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Once, before the device is first opened.
  void bind(PinAccount* account, Retries* retries) {
    account_ = account;
    retries_ = retries;
  }

  // Asks the backend for its limits. Returns a status of rdmalloc.h; `why` gets a sentence on
  // failure.
  int open(const rdm_backend& backend, void* context, const char** why);
  // Tells the backend, unless it does not want to know. `forked`: in a child of fork.
  void tell_closed(bool forked);
  void forget_all() { count_ = 0; }

  // None is zero: without a limit there is the largest value.
  const rdm_backend_limits& limits() const { return limits_; }
  bool has(unsigned ability) const { return (limits_.abilities & ability) != 0; }
  bool may_run_in_malloc() const { return has(RDM_BACKEND_IN_MALLOC); }
  // MRs registered, or being so.
  size_t count() const { return count_.load(std::memory_order_relaxed); }

  // From now on regions are registered only while so much of the memlock limit stays free for
  // others, who may end the program without it.
  void leave_free(size_t bytes) { left_free_.store(bytes, std::memory_order_relaxed); }
  size_t left_free() const { return left_free_.load(std::memory_order_relaxed); }

  // The only call of the backend's register_memory(). RDM_NOT_REGISTERED: the device has no MRs
  // left. `why` stays empty when there is nothing to report. `kept`: bytes that deregister_memory()
  // kept for this, with a place for one MR; or 0.
  int register_memory(const rdm_backend_request& request, int charges, size_t kept,
                      rdm_backend_key* key, char* why, size_t why_size);
  // The only call of the backend's deregister_memory(). RDM_BACKEND_LATER: this thread cannot do
  // it; the memory stays counted if the caller may ask again. `keeps_room`: if it is gone, it stays
  // counted for the next registration.
  int deregister_memory(size_t length, int charges, const rdm_backend_key& key,
                        bool may_ask_again = false, bool keeps_room = false);

  // By how many bytes a registration would exceed the limit.
  size_t shortfall(int charges, size_t bytes) const { return account_->shortfall(charges, bytes); }
  // What is in use of the limit: bytes, or MRs where nothing is charged.
  uint64_t in_use(int charges) const {
    return charges == RDM_CHARGES_NOTHING ? count() : account_->pinned();
  }
  // Makes room to register that much, by giving up what is kept for reuse, here and in other
  // domains; true if there may be room now.
  bool reclaim(int charges, size_t length);
  // Whether giving up everything idle would make that much room.
  bool can_reclaim(int charges, size_t bytes) const {
    return account_->reclaim(charges, bytes, PinAccount::Doing::kAsking);
  }
  bool may_reclaim(int charges, size_t length) const {
    const size_t missing = shortfall(charges, length);
    return missing == 0 || can_reclaim(charges, missing);
  }
  // `shortfall` bytes are missing. Re-reads the limit on every call if nothing can be reclaimed.
  bool is_limit_raised(int charges, size_t shortfall);

 private:
  void give_room(int charges, size_t bytes);

  rdm_backend backend_{};
  void* context_ = nullptr;
  rdm_backend_limits limits_{};
  std::atomic<size_t> count_{0};
  std::atomic<size_t> left_free_{0};
  PinAccount* account_ = nullptr;
  Retries* retries_ = nullptr;
};

}  // namespace rdmalloc
