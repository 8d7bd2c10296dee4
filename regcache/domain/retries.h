// Decides when refused registrations are tried again: the part that a registry's domains share.
// Only the registrar tries again, so a lookup can refuse at once. A registration that lacks room
// waits until there is some. One that failed temporarily is tried a bounded number of times, at
// growing intervals. Everything is tried once more when the memlock limit was raised or a domain
// was closed.
//
// Takes no lock. May be called inside malloc unless a function says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/domain/pin_account.h"
#include "regcache/domain/region_source.h"

namespace rdmalloc {

class Retries {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // Makes the registrar begin a round. `may_start`: its thread may be started (not inside malloc).
  // False: the thread could not be started now.
  using Wake = bool (*)(void* context, bool may_start);

  constexpr Retries(const RegionSource* source, PinAccount* account, Wake wake, void* context)
      : source_(source), account_(account), wake_(wake), context_(context) {}
  Retries(const Retries&) = delete;
  Retries& operator=(const Retries&) = delete;

  uint64_t now_ns() const { return source_->now_ns(); }

  // How long after so many temporary failures the next try comes; kNever after the last one.
  static constexpr uint64_t delay_ns(unsigned failures) {
    return failures < kMostTries ? kFirstDelayNs << (failures - 1) : kNever;
  }

  // Reads the memlock limit again. True: it was raised, and everything is due.
  bool look_at_limit();
  // Whether to read again what nobody announces. Callers may ask often; the answer is rarely yes.
  bool may_look();

  // Notes that a region of so many bytes waits until they can be charged; 0: until anything is
  // given back.
  void note_waiting(int charges, size_t bytes);
  // Notes that something was given back.
  void note_room();
  // Makes everything that was refused due.
  void note_event();

  // A lookup, not inside malloc, found something due. Wakes the registrar once for each round.
  void ask();
  // There is work for the registrar: more was refused, and it must find out when to try again; or a
  // lookup left a region to it.
  void note_work() { (void)wake_(context_, false); }

  // The registrar begins to check what was refused. True: everything is due.
  bool begin_round();

  void note_fork_child();

 private:
  static constexpr uint64_t kFirstDelayNs = 100'000'000;
  static constexpr unsigned kMostTries = 11;  // for 102 seconds
  static constexpr uint64_t kLookNs = 100'000'000;

  const RegionSource* const source_;
  PinAccount* const account_;
  const Wake wake_;
  void* const context_;
  std::atomic<uint64_t> looked_at_{0};  // the limit: now_ns()
  // The least that a region waits for, by process and by user.
  std::atomic<size_t> least_[2] = {SIZE_MAX, SIZE_MAX};
  std::atomic<bool> all_due_{false};
  std::atomic<bool> asked_{false};  // since the last round began
};

}  // namespace rdmalloc
