// Large blocks, allocated and freed repeatedly: the cost for a program that allocates its message
// buffers anew in every step.
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMebibyte = size_t{1} << 20;

void touch(void* block, size_t from, size_t to) {
  auto* bytes = static_cast<volatile char*>(block);
  for (size_t i = from; i < to; i += kPage) bytes[i] = 1;
}

// The first turn is not measured: there, an allocator that keeps memory acquires it.
template <typename Turn>
void repeat(const Arguments& arguments, Meter& meter, Turn turn) {
  // About the same number of bytes for every size.
  const size_t turns = 20 * 64 * kMebibyte / arguments.bytes + 1;
  const size_t count = arguments.short_form ? 1 : turns;
  turn();
  meter.start();
  for (size_t i = 0; i < count; ++i) turn();
  meter.stop();
  report("turns", count);
}

}  // namespace

void run_large_touch(const Arguments& arguments, Meter& meter) {
  repeat(arguments, meter, [size = arguments.bytes] {
    void* block = malloc(size);
    touch(block, 0, size);
    free(block);
  });
}

void run_large_memset(const Arguments& arguments, Meter& meter) {
  repeat(arguments, meter, [size = arguments.bytes] {
    void* block = malloc(size);
    memset(block, 1, size);
    keep(block);
    free(block);
  });
}

void run_large_calloc(const Arguments& arguments, Meter& meter) {
  repeat(arguments, meter, [size = arguments.bytes] {
    void* block = calloc(1, size);
    touch(block, 0, size);
    free(block);
  });
}

// Most blocks of this size are never touched as a whole. Growing ones, of which none is the last
// one again.
void run_large_sparse(const Arguments& arguments, Meter& meter) {
  const size_t turns = arguments.short_form ? 10 : 1000;
  size_t size = arguments.bytes;
  const auto turn = [&size] {
    void* block = calloc(1, size);
    touch(block, 0, 1);
    touch(block, size - 1, size);
    free(block);
    size += 64 << 10;
  };
  turn();
  meter.start();
  for (size_t i = 0; i < turns; ++i) turn();
  meter.stop();
  report("turns", turns);
}

// A block that grows to the size in steps of 1 MiB, every new page touched.
void run_large_growth(const Arguments& arguments, Meter& meter) {
  const size_t count = arguments.short_form ? 1 : 3;
  meter.start();
  for (size_t i = 0; i < count; ++i) {
    void* block = nullptr;
    for (size_t size = kMebibyte; size <= arguments.bytes; size += kMebibyte) {
      block = realloc(block, size);
      touch(block, size - kMebibyte, size);
    }
    free(block);
  }
  meter.stop();
  report("turns", count);
}

// growing_blocks BYTES BLOCKS/STEP: so many blocks grow in turn, by so many KiB, until they have so
// many bytes together.
void run_growing_blocks(const Arguments& arguments, Meter& meter) {
  char* end = nullptr;
  const size_t blocks = strtoul(arguments.kind, &end, 10);
  const size_t step = strtoul(end + 1, nullptr, 10) * 1024;
  std::vector<void*> grown(blocks);
  meter.start();
  for (size_t size = step; size * blocks <= arguments.bytes; size += step) {
    for (void*& block : grown) {
      block = realloc(block, size);
      touch(block, size - step, size);
    }
  }
  meter.stop();
  report("turns", 1);
  for (void* block : grown) free(block);
}

}  // namespace rdmalloc::bench
