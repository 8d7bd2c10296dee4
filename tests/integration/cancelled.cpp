// malloc is not a cancellation point: a thread with a pending cancellation completes calls that
// grow the heap, and the locks it took are free afterwards.
#include <errno.h>
#include <pthread.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kThreads = 8;
constexpr size_t kBlocks = 4;
constexpr size_t kBlock = size_t{8} << 20;

probe::Verdict verdict;

void* work(void*) {
  int ignored = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &ignored);
  void* blocks[kBlocks];
  for (void*& block : blocks) block = malloc(kBlock);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
  for (void* block : blocks) {
    if (block == nullptr) verdict.broken("malloc failed with errno %d", errno);
  }
  return nullptr;  // Its memory is kept, so that the next thread must grow the heap too.
}

}  // namespace

int main() {
  alarm(30);  // A lock left behind ends the test by SIGALRM.
  for (size_t i = 0; i < kThreads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work, nullptr) != 0)
      probe::refused("cannot start a thread");
    void* result = nullptr;
    pthread_join(thread, &result);
    if (result == PTHREAD_CANCELED) verdict.broken("thread %zu was cancelled inside malloc", i);
    if (malloc(kBlock) == nullptr) verdict.broken("malloc after thread %zu failed", i);
  }
  return verdict.status();
}
