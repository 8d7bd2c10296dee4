// State shared by the fake's source files.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "tests/support/fake_os.h"

namespace rdmalloc::fake {

struct Fault {
  size_t countdown = 0;  // 0: none
  bool for_ever = false;
  Status status = Status::kNoMemory;
};

struct State {
  std::mutex mutex;
  Machine machine;
  std::vector<std::string> environment;
  size_t counts[kCalls] = {};
  Fault faults[kCalls];
  uint64_t page_faults = 0;
  std::map<uintptr_t, size_t> reservations;
  std::map<uintptr_t, size_t> metadata;
  std::map<uintptr_t, Range> open;
  std::map<uintptr_t, size_t> vacated;    // moved away, not yet left
  std::map<uintptr_t, size_t> left;       // moved away and left
  std::map<uintptr_t, size_t> destroyed;  // by the program, which may have its own memory there
  std::set<uintptr_t> dropped_tables;     // by where what they mapped begins
  size_t split_moves = 0;
  std::map<uintptr_t, size_t> held;
  uint64_t huge_pages_used = 0;
  uint64_t cpu_ns = 0;
  uint64_t time_ns = 0;  // 0: as outside
  std::vector<std::string> violations;
};

State& state();

// As os::node_of_pages(), from what touch() recorded.
int node_of_pages(const void* address, size_t bytes);

}  // namespace rdmalloc::fake
