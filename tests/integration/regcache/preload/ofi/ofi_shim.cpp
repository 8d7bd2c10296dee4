// What registrations cost a program that uses only libfabric. Over a fake libfabric, with and
// without the shim. The first argument names the case.
#include <sys/mman.h>

#include <thread>
#include <vector>

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/preload/ofi/ofi_speaker.h"

namespace {

using probe::kBytes;
using probe::kLargest;
using probe::Speaker;
using probe::verdict;

constexpr size_t kMessages = 20'000;
constexpr size_t kFewRegistrations = 64;

void steady() {
  Speaker speaker;
  probe::Random random(3);
  const uint64_t cost = speaker.cost([&] {
    for (size_t i = 0; i < kMessages; ++i) {
      const size_t size = random.size_between(16, kLargest);
      void* bytes = malloc(size);
      memset(bytes, 1, size < 64 ? size : 64);
      speaker.use(bytes, size, static_cast<int>(i));
      free(bytes);
    }
  });
  if (cost > kFewRegistrations) verdict.broken("%lu registrations", cost);
}

char* full_block() {
  auto* const block = static_cast<char*>(malloc(kLargest));
  if (block == nullptr) probe::skip("no memory");
  memset(block, 1, kLargest);
  return block;
}

// A block moves out of a region that libfabric's cache has registered. What is left there needs no
// registration of its own, and what moved away cannot be registered at its old address.
void retired() {
  Speaker speaker;
  auto* const old = full_block();
  auto* const beside = full_block();
  speaker.use(old, kLargest);
  speaker.use(beside, kLargest);
  auto* const moved = static_cast<char*>(realloc(old, 16 * kLargest));
  if (moved == old) probe::skip("the block grew where it lay");
  if (probe::library().owns(old) != 0) probe::skip("the block was copied");
  for (int how = 0; how < 3; ++how) {
    const uint64_t cost = speaker.cost_of(beside, [&] { speaker.use(beside, kLargest, how); });
    if (cost != 0) verdict.broken("%lu registrations beside lost pages", cost);
    if (speaker.try_use(old, kLargest, how) == 0) verdict.broken("lost pages were registered");
    if (speaker.try_use(old + kLargest - 1, 1, how) == 0) verdict.broken("so was their last byte");
  }
  free(moved);
  free(beside);
}

// A domain that declares that it pins is believed, and what passes by the cache is registered by
// the provider alone.
void economy() {
  Speaker speaker("verbs", FI_THREAD_SAFE, FI_MR_ALLOCATED);
  if (fake_ofi_books().registered != 0) verdict.broken("something was registered by trial");
  const uint64_t cost = speaker.cost([&] {
    for (size_t i = 1; i <= 10; ++i) {
      void* pool = malloc(i * kLargest);
      speaker.use_past_the_cache(pool, i * kLargest);
      free(pool);
    }
  });
  if (cost != 20) verdict.broken("%lu registrations for 20 uses", cost);
}

void* map(void* at = nullptr) {
  void* memory = mmap(at, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  if (memory == MAP_FAILED) probe::skip("no memory");
  memset(memory, 1, kBytes);
  return memory;
}

// The program maps something of its own over pages of a block.
void replaced() {
  Speaker speaker;
  auto* const block = full_block();
  auto* const beside = full_block();
  speaker.use(block, kLargest);
  const auto within = (reinterpret_cast<uintptr_t>(block) + kLargest / 2) & ~(probe::kPage - 1);
  (void)map(reinterpret_cast<void*>(within));
  const uint64_t cost = speaker.cost_of(block, [&] { speaker.use(block, kLargest); });
  if (cost == 0) verdict.broken("replaced pages were not registered anew");
  for (int how = 0; how < 3; ++how) {
    speaker.use(block, kLargest, how);
    speaker.use(reinterpret_cast<void*>(within), 1, how);
    speaker.use(beside, kLargest, how);
  }
}

// The program's own memory is registered once, and again after it has changed.
void foreign() {
  Speaker speaker;
  if (const char* monitor = getenv("RDMALLOC_MONITOR")) probe::need_monitor(monitor);
  void* memory = map();
  const auto use_often = [&] {
    for (int i = 0; i < 1000; ++i) speaker.use(memory, kBytes);
  };
  uint64_t cost = speaker.cost_of(memory, use_often);
  if (cost != 1) verdict.broken("%lu registrations of unchanged memory", cost);
  munmap(memory, kBytes);
  (void)map(memory);
  cost = speaker.cost_of(memory, use_often);
  if (cost != 1) verdict.broken("%lu registrations after it was mapped anew", cost);
  madvise(memory, kBytes, MADV_DONTNEED);
  memset(memory, 1, kBytes);
  cost = speaker.cost_of(memory, use_often);
  if (cost != 1) verdict.broken("%lu registrations after its pages were dropped", cost);
  munmap(memory, kBytes);
}

// If nothing sees changes, other memory is registered for each use and never cached.
void unwatched() {
  constexpr uint64_t kUses = 100;
  Speaker speaker;
  void* memory = map();
  const uint64_t cost = speaker.cost_of(memory, [&] {
    for (uint64_t i = 0; i < kUses; ++i) speaker.use(memory, kBytes);
  });
  if (cost != kUses) verdict.broken("%lu registrations for %lu uses", cost, kUses);
  munmap(memory, kBytes);
}

// Threads that register malloc'd and mapped memory while others grow the heap and a domain comes
// and goes.
void threads() {
  Speaker speaker;
  const auto work = [&](uint64_t seed) {
    probe::Random random(seed);
    void* memory = map();
    for (size_t i = 0; i < kMessages / 10; ++i) {
      void* bytes = malloc(random.size_between(64, kLargest));
      speaker.use(bytes, 64, static_cast<int>(i));
      speaker.use(memory, kBytes);
      if (i % 100 == 0) madvise(memory, kBytes, MADV_DONTNEED);
      if (i % 200 == 0) Speaker("verbs").use(bytes, 64);
      free(bytes);
    }
    munmap(memory, kBytes);
  };
  std::vector<std::thread> all;
  for (uint64_t seed = 1; seed <= 4; ++seed) all.emplace_back(work, seed);
  for (std::thread& each : all) each.join();
}

// Two caches that know the same memory: each counts only its own registration.
void two_caches() {
  Speaker first;
  Speaker second("verbs");
  void* memory = map();
  first.use(memory, kBytes);
  second.use(memory, kBytes);
  madvise(memory, kBytes, MADV_DONTNEED);
  memset(memory, 1, kBytes);
  for (Speaker* each : {&second, &first}) {
    if (each->cost_of(memory, [&] { each->use(memory, kBytes); }) != 1) {
      verdict.broken("the %s is stale", each == &first ? "first" : "second");
    }
  }
  for (int i = 0; i < 3; ++i) {
    first.use(memory, kBytes);
    second.use(memory, kBytes);
  }
  const uint64_t cost = first.cost_of(memory, [&] {
    first.use(memory, kBytes);
    second.use(memory, kBytes);
  });
  if (cost != 0) verdict.broken("%lu registrations in the long run", cost);
  munmap(memory, kBytes);
}

// A domain without locks is called only in the program's thread, even though the heap grows with
// other threads' help and another domain keeps the registrar busy.
void one_thread(fi_threading threading) {
  Speaker locked("verbs");
  Speaker speaker("verbs;ofi_rxm", threading);
  probe::Random random(4);
  const uint64_t cost = speaker.cost([&] {
    for (size_t i = 0; i < kMessages / 10; ++i) {
      const size_t size = random.size_between(16, kLargest);
      void* bytes = malloc(size);
      if (i % 100 == 0) {
        std::thread([&] { free(malloc(kLargest << (i / 100 % 6))); }).join();
        usleep(1000);
      }
      speaker.use(bytes, size, static_cast<int>(i));
      free(bytes);
    }
  });
  speaker.close();
  const uint64_t elsewhere = fake_ofi_books().elsewhere;
  if (elsewhere != 0) verdict.broken("%lu calls in threads of ours", elsewhere);
  if (cost > 2 * kFewRegistrations) verdict.broken("%lu registrations", cost);
}

void thread_domain() { one_thread(FI_THREAD_DOMAIN); }
void thread_completion() { one_thread(FI_THREAD_COMPLETION); }

// A provider that copies would gain nothing, and is left alone.
void copying() {
  Speaker speaker("tcp");
  const uint64_t cost = speaker.cost([&] {
    for (int i = 0; i < 6; ++i) free(malloc(kLargest << i));
  });
  if (cost != 0) verdict.broken("%lu registrations that nobody asked for", cost);
  speaker.use(&verdict, sizeof verdict);
}

constexpr probe::Case kCases[] = {{"steady", steady},
                                  {"foreign", foreign},
                                  {"economy", economy},
                                  {"retired", retired},
                                  {"replaced", replaced},
                                  {"unwatched", unwatched},
                                  {"threads", threads},
                                  {"two_caches", two_caches},
                                  {"copying", copying},
                                  {"thread_domain", thread_domain},
                                  {"thread_completion", thread_completion}};

}  // namespace

int main(int argc, char** argv) { return probe::run_case(kCases, argc, argv); }
