// Repeats the same mixed work in several threads; two marks in the trace, munmaps of nothing,
// enclose all rounds but the first ones. Objects are smaller than the size from which realloc moves
// pages instead of copying bytes.
//
//   quiet THREADS ROUNDS
#include <sys/mman.h>
#include <sys/syscall.h>

#include <barrier>
#include <thread>
#include <vector>

#include "tests/integration/probe.h"

namespace {

constexpr uint64_t kWarmUp = 3;
constexpr uint64_t kObjects = 200;
constexpr size_t kLargest = size_t{512} << 10;

// all_have() is called when all objects exist, and again after they are resized.
template <typename AllHave>
void round(uint64_t seed, std::vector<void*>& objects, AllHave all_have) {
  probe::Random random(seed);
  for (void*& object : objects) {
    const size_t size = random.size_between(16, kLargest);
    object = malloc(size);
    memset(object, 1, size);
  }
  all_have();
  for (void*& object : objects) object = realloc(object, random.size_between(16, kLargest));
  all_have();
  for (void*& object : objects) free(object);
}

void mark() { (void)syscall(SYS_munmap, nullptr, 0); }

}  // namespace

int main(int argc, char** argv) {
  const uint64_t count = probe::argument(argc, argv, 1, 4);
  const uint64_t rounds = probe::argument(argc, argv, 2, 20);
  std::barrier turn(static_cast<ptrdiff_t>(count) + 1);
  std::barrier together(static_cast<ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      std::vector<void*> objects(kObjects);
      // Together, so that no later round needs more at once than the heap has seen.
      for (uint64_t n = 0; n < kWarmUp; ++n) {
        round(i, objects, [&] { together.arrive_and_wait(); });
      }
      turn.arrive_and_wait();
      for (uint64_t n = 0; n < rounds; ++n) round(i, objects, [] {});
      turn.arrive_and_wait();
      turn.arrive_and_wait();
    });
  }
  turn.arrive_and_wait();
  mark();
  turn.arrive_and_wait();
  mark();
  turn.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  return 0;
}
