// Small objects, one thread, the C interface.
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

// A live set whose members are replaced at random by new ones of random size.
void churn(size_t live, size_t low, size_t high, size_t steps, Meter& meter) {
  std::vector<void*> slots(live, nullptr);
  Random random(1);
  meter.start();
  for (size_t i = 0; i < steps; ++i) {
    void*& slot = slots[random.below(live)];
    free(slot);
    const size_t size = random.between(low, high);
    slot = malloc(size);
    memset(slot, 1, size < 64 ? size : 64);
  }
  for (void* slot : slots) free(slot);
  meter.stop();
}

}  // namespace

// The fast path alone: the object is freed before the next one is allocated.
void run_pairs(const Arguments& arguments, Meter& meter) {
  const size_t size = arguments.bytes != 0 ? arguments.bytes : 64;
  const size_t pairs = arguments.repeat(30'000'000);
  meter.start();
  for (size_t i = 0; i < pairs; ++i) {
    void* object = malloc(size);
    keep(object);
    free(object);
  }
  meter.stop();
}

void run_churn(const Arguments& arguments, Meter& meter) {
  churn(20'000, 8, 1024, arguments.repeat(10'000'000), meter);
}

// Beyond small: sizes for which a slab holds few objects, or an extent holds one.
void run_medium(const Arguments& arguments, Meter& meter) {
  churn(1'000, 1024, 65536, arguments.repeat(2'000'000), meter);
}

// Many vectors that grow by half in turn, like strings and arrays under construction.
void run_growth(const Arguments& arguments, Meter& meter) {
  constexpr size_t kVectors = 1'000;
  constexpr size_t kLargest = 2 * 1024;
  std::vector<void*> vectors(kVectors, nullptr);
  const size_t rounds = arguments.repeat(700);
  meter.start();
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t size = 16; size < kLargest; size += size / 2) {
      for (void*& vector : vectors) {
        vector = realloc(vector, size);
        static_cast<char*>(vector)[size - 1] = 1;
      }
    }
    for (void*& vector : vectors) {
      free(vector);
      vector = nullptr;
    }
  }
  meter.stop();
}

}  // namespace rdmalloc::bench
