// Options of a domain or a pool, with a buffer for the reason of a failure.
#pragma once

#include "include/rdmalloc/pool.h"
#include "include/rdmalloc/rdmalloc.h"

namespace probe {

template <typename Options>
struct WithReason : Options {
  explicit WithReason(unsigned with_flags = 0) : Options{} {
    this->size = sizeof(Options);
    this->flags = with_flags;
    this->error = why;
    this->error_size = sizeof why;
  }
  WithReason(const WithReason&) = delete;
  WithReason& operator=(const WithReason&) = delete;

  char why[1024] = {};
};

using DomainOptions = WithReason<rdm_domain_options>;
using PoolOptions = WithReason<rdm_pool_options>;

}  // namespace probe
