#include <pthread.h>
#include <stdio.h>

#include <atomic>

#include "regcache/monitor/monitor.h"

namespace rdmalloc {
namespace {

// Which monitor is in force, and why. Constant-initialised.
class Choice {
 public:
  Monitor& get(MonitorWish wish, const char** why);
  void note_fork_child();

 private:
  static constexpr size_t kLongest = 768;

  Monitor* choose(MonitorWish wish);
  void refuse(const char* name, const char* reason);
  const char* sentence(const Monitor& monitor);

  std::atomic<Monitor*> chosen_{nullptr};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
  // Why not the better ones.
  char refusals_[kLongest] = {};
  size_t refusals_size_ = 0;
  // The sentence, for what the monitor said of itself then; it says something else but once.
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
  if (says != said_) {
    said_ = says;
    sentence_ ^= 1;
    snprintf(sentences_[sentence_], sizeof sentences_[sentence_], "%s%s", refusals_, says);
  }
  return sentences_[sentence_];
}

Monitor& Choice::get(MonitorWish wish, const char** why) {
  Monitor* monitor = chosen_.load(std::memory_order_acquire);
  if (monitor != nullptr && why == nullptr) return *monitor;
  pthread_mutex_lock(&mutex_);
  monitor = chosen_.load(std::memory_order_acquire);
  if (monitor == nullptr) {
    monitor = choose(wish);
    said_ = nullptr;
    chosen_.store(monitor, std::memory_order_release);
  }
  if (why != nullptr) *why = sentence(*monitor);
  pthread_mutex_unlock(&mutex_);
  return *monitor;
}

void Choice::note_fork_child() {
  if (Monitor* const monitor = chosen_.load(std::memory_order_relaxed)) monitor->note_fork_child();
  chosen_.store(nullptr, std::memory_order_relaxed);
  pthread_mutex_init(&mutex_, nullptr);
}

}  // namespace

Monitor& monitor_in_force(MonitorWish wish, const char** why) { return choice.get(wish, why); }

void note_fork_child_of_monitors() { choice.note_fork_child(); }

}  // namespace rdmalloc
