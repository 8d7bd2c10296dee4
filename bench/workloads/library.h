// rdmalloc's functions, if the process has them. The workloads are not linked to the library,
// because they must run under every malloc.
#pragma once

#include "rdmalloc/backend.h"
#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

struct Library {
  decltype(&rdm_stats_get) stats_get;
  decltype(&rdm_lookup) lookup;
  decltype(&rdm_get) get;
  decltype(&rdm_put) put;
  decltype(&rdm_last_error) last_error;
  decltype(&rdm_monitor) monitor;
  decltype(&rdm_domain_open) domain_open;
  decltype(&rdm_domain_open_io_uring) domain_open_io_uring;

  // All zeros under other mallocs.
  rdm_stats stats() const;
  // Exits and says why if it cannot be opened.
  rdm_domain* open_io_uring(int ring_fd, unsigned flags = 0) const;
  rdm_domain* open(const rdm_backend& backend) const;
};

// Null pointers under other mallocs.
const Library& library();

}  // namespace rdmalloc::bench
