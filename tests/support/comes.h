// Waits for something that another thread will do soon.
#pragma once

#include <chrono>
#include <thread>

namespace rdmalloc::test {

// Whether the condition holds within ten seconds.
template <typename Check>
[[nodiscard]] bool comes(Check check) {
  for (int i = 0; i < 10'000; ++i) {
    if (check()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return check();
}

}  // namespace rdmalloc::test
