// How much CPU time something may take: a share of the time that has passed. What is dear is so
// done as often as it can be, and no more often.
#pragma once

#include <cstdint>

namespace rdmalloc::cli::study {

class Allowance {
 public:
  // `credit_ns` may be spent before any time has passed.
  constexpr Allowance(double share, uint64_t credit_ns) : share_(share), credit_(credit_ns) {}

  // True when as much again as it took last time fits in what has passed.
  bool allows(uint64_t elapsed_ns) const { return allows(elapsed_ns, last_); }
  // The same of something whose cost is foreseen otherwise.
  bool allows(uint64_t elapsed_ns, uint64_t cost_ns) const {
    return static_cast<double>(spent_ + cost_ns) <=
           share_ * static_cast<double>(elapsed_ns) + static_cast<double>(credit_);
  }
  void spend(uint64_t ns) {
    spent_ += ns;
    last_ = ns;
  }
  // From when on it allows what costs nothing, in ns since the beginning.
  uint64_t allowed_from() const {
    if (spent_ <= credit_) return 0;
    return static_cast<uint64_t>(static_cast<double>(spent_ - credit_) / share_);
  }
  // For costs that are known as a sum only; each is foreseen to be as none.
  void set_spent(uint64_t ns) { spent_ = ns; }

 private:
  double share_;
  uint64_t credit_;
  uint64_t spent_ = 0;
  uint64_t last_ = 0;
};

}  // namespace rdmalloc::cli::study
