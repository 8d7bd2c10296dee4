#pragma once

#include "regcache/lock_order.h"

namespace rdmalloc {

// Exists for the length of a backend's operation. One operation may lead into another: UCX
// registers with a device through libibverbs, which the verbs shim interposes.
class InBackend {
 public:
  // A backend that runs inside malloc makes system calls only, so it may come anywhere in the
  // order.
  explicit InBackend(bool may_run_in_malloc) : before_(is_here), is_ranked_(!may_run_in_malloc) {
    if (is_ranked_) outer_ = enter_rank(LockRank::kDriver);
    is_here = true;
  }
  ~InBackend() {
    is_here = before_;
    if (is_ranked_) leave_rank(outer_);
  }
  InBackend(const InBackend&) = delete;
  InBackend& operator=(const InBackend&) = delete;

  // This thread is in one.
  static inline constinit thread_local bool is_here = false;

 private:
  const bool before_;
  const bool is_ranked_;
  LockRank outer_ = LockRank::kNone;
};

}  // namespace rdmalloc
