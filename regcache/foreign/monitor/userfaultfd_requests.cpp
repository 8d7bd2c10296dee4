#include "regcache/foreign/monitor/userfaultfd_requests.h"

#include <errno.h>

#include "allocator/os/futex.h"

namespace rdmalloc {

void UserfaultfdRequest::Answer::give(int value) {
  error = value;
  is_there.store(1, std::memory_order_release);
  os::wake_all(is_there);
}

int UserfaultfdRequest::Answer::wait() const {
  while (is_there.load(std::memory_order_acquire) == 0) os::wait_while(is_there, 0);
  return error;
}

bool UserfaultfdRequests::put(const UserfaultfdRequest& request) {
  pthread_mutex_lock(&mutex_);
  const bool has_room = count_ < kMost;
  if (has_room) requests_[(first_ + count_++) % kMost] = request;
  pthread_mutex_unlock(&mutex_);
  if (has_room) wake_keeper();
  return has_room;
}

int UserfaultfdRequests::ask(UserfaultfdRequest::Kind kind, uintptr_t base, size_t length) {
  UserfaultfdRequest::Answer answer;
  return put({kind, base, length, &answer}) ? answer.wait() : EAGAIN;
}

void UserfaultfdRequests::wake_keeper() {
  work_.fetch_add(1, std::memory_order_seq_cst);
  os::wake_all(work_);
}

void UserfaultfdRequests::catch_up() {
  const uint32_t asked = catch_ups_asked_.fetch_add(1, std::memory_order_seq_cst) + 1;
  wake_keeper();
  for (;;) {
    const uint32_t done = catch_ups_done_.load(std::memory_order_acquire);
    if (static_cast<int32_t>(done - asked) >= 0) break;
    os::wait_while(catch_ups_done_, done);
  }
}

void UserfaultfdRequests::wait_for_work(uint32_t seen) { os::wait_while(work_, seen); }

bool UserfaultfdRequests::take(UserfaultfdRequest* request) {
  pthread_mutex_lock(&mutex_);
  const bool is_any = count_ > 0;
  if (is_any) {
    *request = requests_[first_];
    first_ = (first_ + 1) % kMost;
    --count_;
  }
  pthread_mutex_unlock(&mutex_);
  return is_any;
}

bool UserfaultfdRequests::has_callers(uint32_t* asked) const {
  *asked = catch_ups_asked_.load(std::memory_order_seq_cst);
  return *asked != catch_ups_done_.load(std::memory_order_relaxed);
}

void UserfaultfdRequests::answer_callers(uint32_t asked) {
  catch_ups_done_.store(asked, std::memory_order_release);
  os::wake_all(catch_ups_done_);
}

}  // namespace rdmalloc
