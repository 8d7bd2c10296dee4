// Threads of a test that take turns.
#pragma once

#include <condition_variable>
#include <mutex>

namespace rdmalloc::test {

class Steps {
 public:
  void advance() {
    {
      const std::lock_guard hold(mutex_);
      ++step_;
    }
    changed_.notify_all();
  }
  // Waits until that many steps have been taken.
  void wait_for(int wanted) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return step_ >= wanted; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int step_ = 0;
};

}  // namespace rdmalloc::test
