// A monitor that watches what it is told to, for testing its callers.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdmalloc::fake {

struct MonitorState {
  std::atomic<bool> can_watch{true};
  std::atomic<uint64_t> watched{0};    // calls that said yes
  std::atomic<uint64_t> unwatched{0};  // calls
};

extern MonitorState monitor;

}  // namespace rdmalloc::fake
