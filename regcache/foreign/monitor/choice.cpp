#include <pthread.h>
#include <stdio.h>

#include <atomic>

#include "regcache/foreign/monitor/monitor.h"

namespace rdmalloc {
namespace {

// Which monitor is in force, and why. Constant-initialised.
class Choice {
 public:
  Monitor& get(MonitorWish wish, const char** why);
  Monitor& started() const {
    Monitor* const monitor = chosen_.load(std::memory_order_acquire);
    return monitor != nullptr ? *monitor : no_monitor();
  }
  void note_fork_child();

 private:
  static constexpr size_t kLongest = 768;

  Monitor* choose(MonitorWish wish);
  void refuse(const char* name, const char* reason);
  const char* sentence(const Monitor& monitor);

  std::atomic<Monitor*> chosen_{nullptr};
  // The choosing thread may wait for the dynamic linker, so no other thread waits for it.
  std::atomic<bool> is_choosing_{false};
  // Why the better monitors were refused. Written by the choosing thread, then only read.
  char refusals_[kLongest] = {};
  size_t refusals_size_ = 0;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
  // The current sentence and the monitor's text that it was made from. That text changes at most
  // once.
  const char* said_ = nullptr;
  char sentences_[2][2 * kLongest] = {};
  size_t sentence_ = 1;
};

constinit Choice choice;

void Choice::refuse(const char* name, const char* reason) {
  const size_t room = sizeof refusals_ - refusals_size_;
  const int size = snprintf(refusals_ + refusals_size_, room, "%s: %s; ", name, reason);
  if (size > 0) refusals_size_ += static_cast<size_t>(size) < room ? size : room - 1;
}

Monitor* Choice::choose(MonitorWish wish) {
  refusals_size_ = 0;
  refusals_[0] = '\0';
  if (wish == MonitorWish::kNone) {
    refuse("asked for", "RDMALLOC_MONITOR is none");
    return &no_monitor();
  }
  const char* reason = "";
  if (wish != MonitorWish::kInterposed) {
    if (Monitor* const monitor = start_userfaultfd_monitor(&reason)) return monitor;
    refuse("userfaultfd", reason);
    if (wish == MonitorWish::kUserfaultfd) return &no_monitor();
  }
  if (Monitor* const monitor = start_interposed_monitor(&reason)) return monitor;
  refuse("interposed", reason);
  return &no_monitor();
}

const char* Choice::sentence(const Monitor& monitor) {
  const char* const says = monitor.why();
  pthread_mutex_lock(&mutex_);
  if (says != said_) {
    said_ = says;
    sentence_ ^= 1;
    snprintf(sentences_[sentence_], sizeof sentences_[sentence_], "%s%s", refusals_, says);
  }
  const char* const sentence = sentences_[sentence_];
  pthread_mutex_unlock(&mutex_);
  return sentence;
}

Monitor& Choice::get(MonitorWish wish, const char** why) {
  if (chosen_.load(std::memory_order_acquire) == nullptr &&
      !is_choosing_.exchange(true, std::memory_order_acquire)) {
    if (chosen_.load(std::memory_order_relaxed) == nullptr) {
      chosen_.store(choose(wish), std::memory_order_release);
    }
    is_choosing_.store(false, std::memory_order_release);
  }
  Monitor* const monitor = chosen_.load(std::memory_order_acquire);
  if (why != nullptr) {
    *why = monitor != nullptr ? sentence(*monitor) : "another thread is choosing a monitor now";
  }
  return monitor != nullptr ? *monitor : no_monitor();
}

void Choice::note_fork_child() {
  if (Monitor* const monitor = chosen_.load(std::memory_order_relaxed)) monitor->note_fork_child();
  chosen_.store(nullptr, std::memory_order_relaxed);
  is_choosing_.store(false, std::memory_order_relaxed);
  said_ = nullptr;
  pthread_mutex_init(&mutex_, nullptr);
}

}  // namespace

Monitor& monitor_in_force(MonitorWish wish, const char** why) { return choice.get(wish, why); }

Monitor& monitor_started() { return choice.started(); }

void note_fork_child_of_monitors() { choice.note_fork_child(); }

}  // namespace rdmalloc
