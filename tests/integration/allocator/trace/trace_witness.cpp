// The program that is recorded. It reports what it allocated, resized, freed and still holds, for
// comparison with its trace. Its objects are identified by their sizes: from kSmallest up, odd or
// multiples of kAlignment. Prints "allocated N resized N freed N held N bytes N".
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child.h"

namespace {

constexpr size_t kSmallest = 20001;
constexpr size_t kSizes = 4000;
constexpr size_t kAlignment = 256;

std::atomic<uint64_t> allocated{0};
std::atomic<uint64_t> resized{0};
std::atomic<uint64_t> freed{0};
std::atomic<uint64_t> held{0};
std::atomic<uint64_t> bytes{0};

enum class Way : uint32_t {
  kMalloc,
  kCalloc,
  kRealloc,
  kAligned,
  kPosix,
  kNew,
  kArray,
  kAlignedNew
};
constexpr uint32_t kWays = 8;

// Header of each object.
struct Block {
  size_t size;
  Way way;
};

void say() {
  printf("allocated %lu resized %lu freed %lu held %lu bytes %lu\n", allocated.load(),
         resized.load(), freed.load(), held.load(), bytes.load());
  fflush(stdout);
}

size_t some_size(uint64_t random) { return kSmallest + random % kSizes * 2; }

void* get(Way way, size_t size) {
  void* memory = nullptr;
  switch (way) {
    case Way::kMalloc:
      return malloc(size);
    case Way::kCalloc:
      return calloc(1, size);
    case Way::kRealloc:
      return realloc(nullptr, size);
    case Way::kAligned:
      return aligned_alloc(kAlignment, size);
    case Way::kPosix:
      return posix_memalign(&memory, kAlignment, size) == 0 ? memory : nullptr;
    case Way::kNew:
      return operator new(size);
    case Way::kArray:
      return operator new[](size);
    case Way::kAlignedNew:
      return operator new (size, std::align_val_t{kAlignment});
  }
  return nullptr;
}

Block* allocate(uint64_t random) {
  const Way way = static_cast<Way>(random % kWays);
  size_t size = some_size(random >> 8);
  // libstdc++ rounds such requests up to whole multiples.
  if (way == Way::kAlignedNew) size = (size + kAlignment - 1) / kAlignment * kAlignment;
  auto* block = static_cast<Block*>(get(way, size));
  if (block == nullptr) abort();
  *block = {size, way};
  ++allocated;
  ++held;
  bytes += size;
  return block;
}

void release(Block* block) {
  ++freed;
  --held;
  bytes -= block->size;
  if (block->way == Way::kNew) return operator delete(block);
  if (block->way == Way::kArray) return operator delete[](block);
  if (block->way == Way::kAlignedNew) return operator delete (block, std::align_val_t{kAlignment});
  free(block);
}

Block* resize(Block* block, uint64_t random) {
  if (block->way >= Way::kNew) return block;
  const size_t size = some_size(random >> 8);
  bytes += size - block->size;
  block = static_cast<Block*>(realloc(block, size));
  if (block == nullptr) abort();
  block->size = size;
  ++resized;
  return block;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t operator()() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  uint64_t state_;
};

// Objects pass from thread to thread, so that memory freed by one is reused at once.
std::array<std::atomic<Block*>, 64> shared;

void storm_of_one(uint64_t seed, int rounds) {
  Random random(seed);
  for (int i = 0; i < rounds; ++i) {
    auto& place = shared[random() % shared.size()];
    Block* block = place.exchange(nullptr);
    if (block == nullptr) {
      block = allocate(random());
    } else if (random() % 2 == 0) {
      block = resize(block, random());
    } else {
      release(block);
      continue;
    }
    if (Block* displaced = place.exchange(block)) release(displaced);
  }
}

int storm(int threads, int rounds) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) all.emplace_back(storm_of_one, i + 1, rounds);
  for (std::thread& one : all) one.join();
  say();
  return 0;
}

int short_threads(int count) {
  for (int i = 0; i < count; ++i) {
    std::thread([i] {
      Block* first = allocate(static_cast<uint64_t>(i) << 8);
      allocate(static_cast<uint64_t>(i + 1) << 8);
      release(first);
    }).join();
  }
  say();
  return 0;
}

std::vector<Block*> some(int count) {
  std::vector<Block*> blocks;
  blocks.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) blocks.push_back(allocate(static_cast<uint64_t>(i) << 8));
  return blocks;
}

// The child allocates as soon as it starts; it frees 40 of its parent's objects.
int forked() {
  std::vector<Block*> blocks = some(100);
  const rdmalloc::test::ChildEnd end = rdmalloc::test::run_child([&] {
    allocated = held = bytes = freed = 0;
    for (int i = 0; i < 7; ++i) allocate(static_cast<uint64_t>(i) << 8);
    for (size_t i = 0; i < 40; ++i) free(blocks[i]);
    say();
  });
  if (!end.exited_well()) return 1;
  for (size_t i = 0; i < 20; ++i) release(blocks[i]);
  some(10);
  say();
  return 0;
}

// All it reported must be in the trace, although the process is killed.
int struck(int signal) {
  storm_of_one(1, 5000);
  say();
  raise(signal);
  return 1;
}

// Memory not from the malloc in front; stands for objects that existed before recording began.
int foreign() {
  using Malloc = void* (*)(size_t);
  const auto hidden = reinterpret_cast<Malloc>(dlsym(RTLD_DEFAULT, "__libc_malloc"));
  if (hidden == nullptr) return 77;
  for (int i = 0; i < 5; ++i) free(hidden(some_size(1)));
  some(3);
  say();
  return 0;
}

int many(int calls) {
  for (int i = 0; i < calls; ++i) release(allocate(static_cast<uint64_t>(i)));
  say();
  return 0;
}

// Frees and allocates after main and after the last say().
struct Late {
  std::vector<Block*> blocks;
  ~Late() {
    if (blocks.empty()) return;
    release(blocks.back());
    allocate(1 << 8);
    allocate(2 << 8);
    say();
  }
} late;

// malloc(0), a realloc to zero bytes, one that must fail, and free(NULL).
int odd() {
  for (int i = 0; i < 10; ++i) free(malloc(0));
  free(nullptr);
  Block* block = allocate(0);
  volatile size_t too_much = SIZE_MAX / 2;
  if (realloc(block, too_much) != nullptr) return 1;
  if (malloc(too_much) != nullptr || reallocarray(block, too_much, 4) != nullptr) return 1;
  Block* gone = allocate(0);
  ++freed;
  --held;
  bytes -= gone->size;
  free(realloc(gone, 0));
  if (malloc_usable_size(block) < block->size) return 1;
  say();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  if (what == "storm") return storm(number, argc > 3 ? atoi(argv[3]) : 1000);
  if (what == "threads") return short_threads(number);
  if (what == "fork") return forked();
  if (what == "struck") return struck(number);
  if (what == "foreign") return foreign();
  if (what == "many") return many(number);
  if (what == "odd") return odd();
  if (what == "late") {
    late.blocks = some(3);
    return 0;
  }
  if (what == "exec") {
    some(50);
    execl("/proc/self/exe", "trace_witness", "many", "500", nullptr);
  }
  fprintf(stderr, "trace_witness: what is '%s'?\n", what.c_str());
  return 2;
}
