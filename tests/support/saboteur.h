// Makes a system call fail now and then while a test's threads run.
#pragma once

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/support/fake_os.h"

namespace rdmalloc::fake {

class Saboteur {
 public:
  Saboteur() : thread_([this] { run(); }) {}
  ~Saboteur() {
    stop_ = true;
    thread_.join();
  }
  Saboteur(const Saboteur&) = delete;
  Saboteur& operator=(const Saboteur&) = delete;

 private:
  void run() {
    std::mt19937 random(3);
    while (!stop_) {
      fail(static_cast<Call>(random() % kCalls), 1 + random() % 3);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    fail_nothing();
  }
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rdmalloc::fake
