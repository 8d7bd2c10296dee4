// Threads that start when memory is used up: their first malloc has no room even for the thread's
// own cache, and must set ENOMEM.
#include <pthread.h>

#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;
constexpr size_t kThreads = 64;
constexpr size_t kLargest = 200000;

void* work(void*) {
  size_t given = 0;
  for (size_t size = 16; size < kLargest; size *= 2) {
    void* pointer = malloc(size);
    if (pointer == nullptr) continue;
    memset(pointer, 1, size);
    ++given;
    free(pointer);
  }
  if (malloc(kLargest) != nullptr) verdict.broken("memory was not exhausted");
  return reinterpret_cast<void*>(given);
}

}  // namespace

int main() {
  static pthread_t threads[kThreads];
  probe::use_up_memory(size_t{64} << 20);
  size_t started = 0;
  for (pthread_t& thread : threads) {
    if (pthread_create(&thread, nullptr, work, nullptr) != 0) break;
    ++started;
    pthread_join(thread, nullptr);
  }
  printf("%zu threads started\n", started);
  return verdict.status();
}
