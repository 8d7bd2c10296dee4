// The other side of a ping-pong: a process that sends back what it receives, through a segment of
// shared memory; and, if requested, more ranks of the same segment, asleep.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "rdmalloc/shm.h"

namespace rdmalloc::bench {

class Partner {
 public:
  // If the segment cannot be created, prints why and ends the program.
  Partner(unsigned layout, unsigned procs);
  // Kills the other ranks.
  ~Partner();
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  // The median of `count` round trips of `length` bytes, in ns of wall time; every reply is
  // checked.
  double round_trip(size_t length, unsigned count);

 private:
  void ping(size_t length, unsigned number);

  rdm_shm* segment_ = nullptr;
  std::vector<pid_t> others_;
  std::vector<double> times_;
};

}  // namespace rdmalloc::bench
