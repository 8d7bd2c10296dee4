// Reads what other processes under rdmalloc tell of themselves (allocator/report/counter_page.h).
// The process has no part in it. What is read is another process's word: bounded, and trusted for
// nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/report/counter_page.h"

namespace rdmalloc::cli {

// As PhaseRecord; the time includes that of a phase in force.
struct PhaseCounters {
  std::string name;
  bool is_in_force = false;
  uint64_t entered = 0;
  uint64_t ns = 0;
  uint64_t peak_live = 0;
  uint64_t peak_held = 0;
  uint64_t peak_pinned = 0;
  uint64_t peak_overflow = 0;
};

// As CounterPage.
struct ProcessCounters {
#define RDMALLOC_PAGE_COUNTER(name) uint64_t name = 0;
  RDMALLOC_PAGE_COUNTERS(RDMALLOC_PAGE_COUNTER)
#undef RDMALLOC_PAGE_COUNTER
  uint64_t process = 0;    // its number, as it sees it itself
  std::string limit_name;  // of limited_by
  std::vector<PhaseCounters> phases;
};

// One process's page. It stays mapped, so that its last values can be read after the process is
// gone.
class CounterReader {
 public:
  // Nothing: there is no such process, it may not be looked into, or it has no counters to show.
  static std::optional<CounterReader> open(pid_t process);

  // By a descriptor of the page, which stays the caller's.
  static std::optional<CounterReader> of_descriptor(int page);

  ProcessCounters read() const;

  // For samplers: four loads.
  struct Now {
    uint64_t live = 0;
    uint64_t held = 0;
    uint64_t pinned = 0;
    uint64_t overflow = 0;
  };
  Now now() const;

 private:
  explicit CounterReader(std::shared_ptr<const CounterPage> page) : page_(std::move(page)) {}

  std::shared_ptr<const CounterPage> page_;
};

}  // namespace rdmalloc::cli
