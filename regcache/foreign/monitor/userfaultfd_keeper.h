// The keeper of the userfaultfd monitor: the thread that has the descriptor, and makes the calls
// about ranges, one after the other. All but start() runs in that thread.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "regcache/foreign/monitor/userfaultfd_events.h"
#include "regcache/foreign/monitor/userfaultfd_kernel.h"
#include "regcache/foreign/monitor/userfaultfd_requests.h"
#include "regcache/foreign/monitor/userfaultfd_watched.h"

namespace rdmalloc {

class UserfaultfdKeeper {
 public:
  static constexpr const char* kNoThread =
      "no thread can be started that reads what the kernel tells";

  constexpr UserfaultfdKeeper(KernelUserfaultfd& kernel, UserfaultfdRequests& requests,
                              UserfaultfdWatched& watched, UserfaultfdEvents& events)
      : kernel_(kernel), requests_(requests), watched_(watched), events_(events) {}
  UserfaultfdKeeper(const UserfaultfdKeeper&) = delete;
  UserfaultfdKeeper& operator=(const UserfaultfdKeeper&) = delete;

  // Null once it has the descriptor and reads events; or a sentence that says why not.
  const char* start();

 private:
  void run();
  const char* begin();
  void answer_callers();
  void serve(const UserfaultfdRequest& request);
  int watch_now(uintptr_t base, size_t length);

  KernelUserfaultfd& kernel_;
  UserfaultfdRequests& requests_;
  UserfaultfdWatched& watched_;
  UserfaultfdEvents& events_;
  pthread_t thread_{};
  UserfaultfdRequest::Answer started_;
  const char* refusal_ = nullptr;
};

}  // namespace rdmalloc
