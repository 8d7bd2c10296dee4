// Limits the CPU time of some work to a share of the elapsed time, so that expensive work is done
// as often as the share allows.
#pragma once

#include <cstdint>

namespace rdmalloc::cli::study {

class Allowance {
 public:
  // `credit_ns` may be spent before any time has passed.
  constexpr Allowance(double share, uint64_t credit_ns) : share_(share), credit_(credit_ns) {}

  // True if spending as much as last time would stay within the share.
  bool allows(uint64_t elapsed_ns) const { return allows(elapsed_ns, last_); }
  // The same for work whose expected cost is given.
  bool allows(uint64_t elapsed_ns, uint64_t cost_ns) const {
    return static_cast<double>(spent_ + cost_ns) <=
           share_ * static_cast<double>(elapsed_ns) + static_cast<double>(credit_);
  }
  void spend(uint64_t ns) {
    spent_ += ns;
    last_ = ns;
  }
  // From when on, in ns since the beginning, it allows work that costs nothing.
  uint64_t allowed_from() const {
    if (spent_ <= credit_) return 0;
    return static_cast<uint64_t>(static_cast<double>(spent_ - credit_) / share_);
  }
  // For costs of which only the sum is known; each is expected to cost nothing.
  void set_spent(uint64_t ns) { spent_ = ns; }

 private:
  double share_;
  uint64_t credit_;
  uint64_t spent_ = 0;
  uint64_t last_ = 0;
};

}  // namespace rdmalloc::cli::study
