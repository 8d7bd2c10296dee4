// Two hundred threads allocate, fill, check and free large blocks, pass some to each other, and
// move between processors while they hold blocks: per-processor caches meet threads that have moved
// away. When malloc sets ENOMEM nothing is lost, and later it succeeds again.
//
//   migrants SECONDS MIB all|some [overflow|spoil]
//
// MIB bounds what all threads hold together. `all`: malloc must never fail; `some`: it must fail
// now and then, and recover. `overflow`: some memory must exceed what may be pinned. `spoil`
// changes a byte of each block that is passed on, which must be noticed.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "tests/integration/probe.h"

namespace {

constexpr int kThreads = 200;
constexpr size_t kLeast = 64 << 10;
constexpr size_t kMost = 4 << 20;
constexpr size_t kMailboxes = 64;
constexpr size_t kOwn = 4;            // the most blocks that a thread holds
constexpr size_t kStack = 256 << 10;  // AArch64 takes 128 KiB at least

probe::Verdict verdict;
std::atomic<size_t> held{0};
std::atomic<uint64_t> given{0}, refused{0}, given_after_refusal{0}, handed{0}, moves{0};
std::atomic<bool> ended{false};
size_t most_held;
bool spoils;
cpu_set_t processors;

// At the block's start, so that a receiver knows its contents. Every page and the last byte carry
// the seed, so a page that is shared with another block or lost shows.
struct Block {
  size_t size;
  uint64_t seed;
};

uint64_t word_of(const Block& block, size_t offset) {
  return (block.seed ^ offset) * 0x9E3779B97F4A7C15U | 1;
}

// Calls `each` with the offset of each written word: three per page, and the block's last.
template <typename Each>
void for_each_word(size_t size, Each each) {
  const size_t step = probe::kPage / 3 & ~size_t{7};
  for (size_t offset = sizeof(Block); offset + 8 <= size; offset += step) each(offset);
  each(size - 8);
}

void fill(Block* block) {
  char* bytes = reinterpret_cast<char*>(block);
  for_each_word(block->size, [&](size_t offset) {
    const uint64_t word = word_of(*block, offset);
    memcpy(bytes + offset, &word, 8);
  });
}

void check(const Block* block, const char* when) {
  const char* bytes = reinterpret_cast<const char*>(block);
  size_t wrong = 0;
  for_each_word(block->size, [&](size_t offset) {
    const uint64_t word = word_of(*block, offset);
    wrong += memcmp(bytes + offset, &word, 8) != 0;
  });
  if (wrong != 0) {
    verdict.broken("%s: %zu words of a block of %zu bytes at %p are wrong", when, wrong,
                   block->size, static_cast<const void*>(block));
  }
}

void let_go(Block* block, const char* when) {
  check(block, when);
  const size_t size = block->size;
  free(block);
  held.fetch_sub(size);
}

// Blocks in transit between threads.
std::atomic<Block*> mailboxes[kMailboxes];

class Migrant {
 public:
  explicit Migrant(uint64_t seed) : random_(seed) {}

  void live() {
    while (!ended.load(std::memory_order_relaxed) && verdict.count() < 20) step();
    for (Block*& block : own_) {
      if (block != nullptr) let_go(block, "at the thread's end");
      block = nullptr;
    }
  }

 private:
  void step() {
    Block*& block = own_[random_.below(kOwn)];
    if (block == nullptr) {
      block = make();
    } else if (random_.below(3) == 0) {
      hand_over(block);
    } else {
      let_go(block, "freed by who holds it");
      block = nullptr;
    }
    if (random_.below(4) == 0) migrate();
  }

  // Null if the bound is reached or malloc refuses.
  Block* make() {
    const size_t size = random_.size_between(kLeast, kMost) & ~size_t{7};
    if (held.fetch_add(size) + size > most_held) {
      held.fetch_sub(size);
      sched_yield();
      return nullptr;
    }
    errno = 0;
    auto* block = static_cast<Block*>(malloc(size));
    if (block == nullptr) {
      if (errno != ENOMEM) verdict.broken("malloc failed with errno %d", errno);
      held.fetch_sub(size);
      refused.fetch_add(1);
      refused_last_ = true;
      sched_yield();
      return nullptr;
    }
    given.fetch_add(1, std::memory_order_relaxed);
    if (refused_last_) given_after_refusal.fetch_add(1, std::memory_order_relaxed);
    refused_last_ = false;
    *block = {size, random_.next()};
    fill(block);
    return block;
  }

  // Swaps the block with what lies in the mailbox, if anything.
  void hand_over(Block*& block) {
    check(block, "before it is handed over");
    if (spoils) reinterpret_cast<char*>(block)[block->size - 1] ^= 1;
    block = mailboxes[random_.below(kMailboxes)].exchange(block);
    if (block != nullptr) {
      check(block, "after it was handed over");
      handed.fetch_add(1, std::memory_order_relaxed);
    }
  }

  // Moves to one processor, whichever it is on now.
  void migrate() {
    const int count = CPU_COUNT(&processors);
    int wanted = static_cast<int>(random_.below(static_cast<uint64_t>(count)));
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &processors) || wanted-- != 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      if (sched_getcpu() != cpu && sched_setaffinity(0, sizeof one, &one) == 0) {
        moves.fetch_add(1, std::memory_order_relaxed);
      }
      return;
    }
  }

  probe::Random random_;
  Block* own_[kOwn] = {};
  bool refused_last_ = false;
};

void* run(void* seed) {
  Migrant(reinterpret_cast<uintptr_t>(seed)).live();
  return nullptr;
}

// Small stacks, because the address space may be limited. If a thread cannot start for lack of
// memory, which programs must expect, threads run in batches.
size_t start(pthread_t* threads) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, kStack) != 0) verdict.broken("no stack of that size");
  size_t started = 0;
  int error = 0;
  for (uintptr_t seed = 1; seed <= kThreads; ++seed) {
    const int answer =
        pthread_create(&threads[started], &attributes, run, reinterpret_cast<void*>(seed));
    if (answer == 0) ++started;
    if (answer != 0 && error == 0) error = answer;
  }
  if (error != 0) {
    printf("a thread was refused: %s; %lu MiB of addresses are in use\n", strerror(error),
           probe::kib_field("/proc/self/status", "VmSize:") >> 20);
  }
  pthread_attr_destroy(&attributes);
  return started;
}

void check_books() {
  if (!probe::library().loaded()) return;
  const rdm_stats now = probe::stats();
  const uint64_t locked = probe::locked_and_hugetlb_bytes();
  if (now.pinned_bytes != locked) {
    verdict.broken("the books say %lu pinned bytes, the kernel %lu", now.pinned_bytes, locked);
  }
  if (now.held_bytes > now.memory_cap_bytes && getenv("RDMALLOC_MEMORY_CAP") != nullptr) {
    verdict.broken("more is held than the cap");
  }
}

// With one thread and everything freed, memory refused before must be available.
void check_goes_on() {
  for (int round = 0; round < 20; ++round) {
    void* block = malloc(kMost);
    if (block == nullptr) {
      verdict.broken("all was freed, and %zu bytes cannot be had", kMost);
      return;
    }
    memset(block, round, kMost);
    free(block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seconds = probe::argument(argc, argv, 1, 2);
  most_held = probe::argument(argc, argv, 2, 512) << 20;
  const bool may_fail = argc > 3 && strcmp(argv[3], "some") == 0;
  const bool beyond_pins = argc > 4 && strcmp(argv[4], "overflow") == 0;
  spoils = argc > 4 && strcmp(argv[4], "spoil") == 0;
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) probe::skip("no affinity");

  static pthread_t threads[kThreads];
  const size_t started = start(threads);
  if (started < (may_fail ? kThreads / 2 : kThreads)) verdict.broken("%zu threads began", started);
  const timespec nap{static_cast<time_t>(seconds), 0};
  nanosleep(&nap, nullptr);
  const rdm_stats full = probe::stats();
  ended.store(true);
  for (size_t i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
  for (std::atomic<Block*>& mailbox : mailboxes) {
    if (Block* block = mailbox.exchange(nullptr)) let_go(block, "never fetched");
  }

  printf(
      "%zu threads, %lu blocks, %lu refused, %lu given after that, %lu handed over, %lu moves; "
      "held %lu MiB, overflow %lu\n",
      started, given.load(), refused.load(), given_after_refusal.load(), handed.load(),
      moves.load(), full.held_bytes >> 20, full.overflow_bytes >> 20);
  if (held.load() != 0) verdict.broken("%zu bytes were lost on the way", held.load());
  if (!may_fail && refused.load() != 0) verdict.broken("malloc failed %lu times", refused.load());
  if (may_fail && refused.load() == 0) verdict.broken("malloc never failed: nothing was tried");
  if (may_fail && given_after_refusal.load() == 0) verdict.broken("malloc gave nothing afterwards");
  if (beyond_pins && full.overflow_bytes == 0) verdict.broken("no memory was beyond the pins");
  if (handed.load() == 0) verdict.broken("no block changed hands");
  if (moves.load() == 0 && CPU_COUNT(&processors) > 1) verdict.broken("no thread moved");
  check_goes_on();
  check_books();
  return verdict.status();
}
