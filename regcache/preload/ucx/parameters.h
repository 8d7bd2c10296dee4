// What ucp_init is given, with one thing changed: the context locks itself, because the thread that
// maps regions is one more than the program knows of.
#pragma once

#include <ucp/api/ucp.h>

namespace rdmalloc::shim {

// For the length of one call of ucp_init.
class SharedParameters {
 public:
  explicit SharedParameters(const ucp_params_t* given);

  // The caller's own if they cannot be copied because some field is unknown here.
  const ucp_params_t* get() const { return chosen_; }

 private:
  ucp_params_t copy_{};
  const ucp_params_t* chosen_;
};

}  // namespace rdmalloc::shim
