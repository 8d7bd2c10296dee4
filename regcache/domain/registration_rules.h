// When a domain registers regions, and for whom: its flags, and what has become of it since it was
// opened.
//
// Takes no lock. Any thread, also inside malloc. What may be read while another use of the domain
// is opened is atomic.
#pragma once

#include <atomic>
#include <cstdint>

#include "include/rdmalloc/backend.h"

namespace rdmalloc {

// Who wants a region registered. Only lookups and opening wait for another thread that is
// registering the region, unless it was refused before. Only the registrar tries again what was
// refused, when it is due.
enum class RegionCaller : uint8_t { kMalloc, kRegistrar, kLookup };

class RegistrationRules {
 public:
  constexpr RegistrationRules() = default;
  RegistrationRules(const RegistrationRules&) = delete;
  RegistrationRules& operator=(const RegistrationRules&) = delete;

  void open(unsigned flags) {
    callers_only_ = (flags & RDM_DOMAIN_CALLERS_ONLY) != 0;
    does_not_wait_ = (flags & RDM_DOMAIN_DO_NOT_WAIT) != 0;
    releases_at_fork_ = (flags & RDM_DOMAIN_RELEASE_AT_FORK) != 0;
    when_asked_ = (flags & (RDM_DOMAIN_WHEN_ASKED | RDM_DOMAIN_CALLERS_ONLY)) != 0;
    was_released_ = false;
    is_replayed_ = false;
  }

  // Only lookups and closing may call the backend.
  bool is_callers_only() const { return callers_only_; }
  bool does_not_wait() const { return does_not_wait_; }
  bool releases_at_fork() const { return releases_at_fork_; }
  // Registers each region at the first lookup in it.
  bool registers_when_asked() const { return when_asked_.load(std::memory_order_relaxed); }

  // From now on only lookups register.
  void note_released() { was_released_ = true; }
  bool was_released() const { return was_released_.load(std::memory_order_relaxed); }
  bool permits(RegionCaller caller) const {
    return caller == RegionCaller::kLookup || !(callers_only_ || was_released());
  }

  // Opening has registered the regions that there were. Until then threads inside malloc leave this
  // domain's regions to the opening thread, which may be in a system call that keeps them out of
  // the device for long: the opener looks again after this.
  void end_replay() { is_replayed_.store(true, std::memory_order_seq_cst); }
  bool is_replayed() const { return is_replayed_.load(std::memory_order_seq_cst); }

 private:
  bool callers_only_ = false;
  bool does_not_wait_ = false;
  bool releases_at_fork_ = false;
  std::atomic<bool> when_asked_{false};
  std::atomic<bool> was_released_{false};
  std::atomic<bool> is_replayed_{false};
};

}  // namespace rdmalloc
