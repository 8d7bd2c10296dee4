// What any thread asks of the keeper of the userfaultfd monitor, and what it answers. Asking may
// happen anywhere, also inside malloc, but only put() is for the monitor's own threads: the others
// wait for the keeper.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdmalloc {

struct UserfaultfdRequest {
  struct Answer {
    std::atomic<uint32_t> is_there{0};
    int error = 0;

    void give(int value);
    int wait() const;
  };
  enum Kind : uint8_t { kWatch, kUnwatch, kLetGo };
  Kind kind = kWatch;
  uintptr_t base = 0;
  size_t length = 0;
  Answer* answer = nullptr;  // null: nobody waits for it
};

class UserfaultfdRequests {
 public:
  // False: there is no room.
  bool put(const UserfaultfdRequest& request);
  // Returns the keeper's answer: 0 or an errno.
  int ask(UserfaultfdRequest::Kind kind, uintptr_t base, size_t length);
  // Waits until the keeper has found no change in progress since this was called.
  void catch_up();

  // For the keeper. What work() returned changes when there is something to do.
  uint32_t work() const { return work_.load(std::memory_order_seq_cst); }
  void wait_for_work(uint32_t seen);
  // False: there is none.
  bool take(UserfaultfdRequest* request);
  bool has_callers(uint32_t* asked) const;
  void answer_callers(uint32_t asked);

 private:
  static constexpr size_t kMost = 256;

  void wake_keeper();

  std::atomic<uint32_t> work_{0};
  std::atomic<uint32_t> catch_ups_asked_{0};
  std::atomic<uint32_t> catch_ups_done_{0};

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
  UserfaultfdRequest requests_[kMost];
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace rdmalloc
