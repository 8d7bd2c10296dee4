// Counts how often threads of ours woke up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace rdmalloc::test {

struct WakeUps {
  int threads = 0;
  uint64_t count = 0;  // each thread goes to sleep as often as it wakes up

  bool operator==(const WakeUps&) const = default;
};

// Of the process's threads whose names begin so.
inline WakeUps wake_ups(std::string_view name = "rdmalloc-") {
  WakeUps found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string is_called;
    std::getline(std::ifstream(task.path() / "comm"), is_called);
    if (!is_called.starts_with(name)) continue;
    ++found.threads;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      uint64_t count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) found.count += count;
    }
  }
  return found;
}

}  // namespace rdmalloc::test
