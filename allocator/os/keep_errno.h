// malloc must not change errno when it succeeds, so nothing that it calls may.
#pragma once

#include <errno.h>

namespace rdmalloc::os {

class [[nodiscard]] KeepErrno {
 public:
  KeepErrno() = default;
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_ = errno;
};

}  // namespace rdmalloc::os
