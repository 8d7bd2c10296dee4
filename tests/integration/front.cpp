// Objects of 4 to 64 KiB, which threads keep for their next mallocs once there were many of them.
//
//   front misuse WAY SIZE   ends by abort with a message: a pointer is used after it was freed
//   front threads           what threads keep goes back when they end, also if they only free
//   front handed            what one thread mallocs another one frees, for long: little is kept
//   front figures           jemalloc's figures for the thread count what is kept, too
//   front reset             an arena's objects may be dropped while this thread keeps others
//   front holes             what the program unmapped of such objects is never handed out
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include <thread>
#include <vector>

#include "tests/integration/engine_api.h"

namespace {

using probe::engine;

constexpr size_t kKiB = 1024;
constexpr size_t kLeast = 4 * kKiB + 1;
constexpr size_t kMost = 64 * kKiB;
constexpr size_t kStep = kKiB;

probe::Verdict verdict;

// The same pointer, hidden from the compiler's analysis.
char* again(char* pointer) {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

char* get(size_t size) {
  auto* const got = static_cast<char*>(malloc(size));
  if (got == nullptr) probe::refused("malloc");
  return again(got);
}

// Objects of each size come and go, several at a time, until the thread keeps some of each.
void use_all_sizes() {
  constexpr int kAtOnce = 12;
  std::vector<char*> objects;
  for (int round = 0; round < 8; ++round) {
    for (size_t size = kLeast; size <= kMost; size += kStep) {
      for (int i = 0; i < kAtOnce; ++i) objects.push_back(get(size));
      for (char* object : objects) free(object);
      objects.clear();
    }
  }
}

void misuse(const char* way, size_t size) {
  use_all_sizes();
  char* const object = get(size);
  free(object);
  if (strcmp(way, "twice") == 0) free(again(object));
  if (strcmp(way, "realloc") == 0) (void)!realloc(again(object), size / 2);
  if (strcmp(way, "dallocx") == 0) engine().dallocx(again(object), 0);
  if (strcmp(way, "xallocx") == 0) (void)engine().xallocx(again(object), size / 2, 0, 0);
  if (strcmp(way, "usable") == 0) (void)malloc_usable_size(again(object));
  verdict.broken("misuse went by unseen");
}

// Memory that they kept beyond their ends would exceed the cap.
void check_threads() {
  for (int i = 0; i < 300; ++i) std::thread(use_all_sizes).join();
  std::vector<char*> objects;
  for (int i = 0; i < 300; ++i) {
    for (size_t size = kLeast; size <= kMost; size += 4 * kStep) objects.push_back(get(size));
    std::thread([&objects] {
      for (char* object : objects) free(object);
    }).join();
    objects.clear();
  }
}

void check_handed() {
  const uint64_t before = probe::stats().held_bytes;
  std::vector<char*> objects;
  pthread_barrier_t both;
  pthread_barrier_init(&both, nullptr, 2);
  constexpr int kRounds = 400;
  std::thread consumer([&] {
    for (int round = 0; round < kRounds; ++round) {
      pthread_barrier_wait(&both);
      for (char* object : objects) free(object);
      pthread_barrier_wait(&both);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    objects.clear();
    for (size_t size = kLeast; size <= kMost; size += kStep) objects.push_back(get(size));
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
  }
  consumer.join();
  pthread_barrier_destroy(&both);
  const uint64_t more = probe::stats().held_bytes - before;
  if (more > (uint64_t{32} << 20)) verdict.broken("%lu MiB are held for 2 MiB", more >> 20);
}

uint64_t figure(const char* name) {
  uint64_t value = 0;
  size_t length = sizeof value;
  if (engine().mallctl(name, &value, &length, nullptr, 0) != 0)
    probe::skip("no figures of threads");
  return value;
}

void check_figures() {
  use_all_sizes();
  const uint64_t allocated = figure("thread.allocated");
  const uint64_t deallocated = figure("thread.deallocated");
  uint64_t expected = 0;
  for (int round = 0; round < 100; ++round) {
    for (size_t size = 5 * kKiB; size <= 8 * kKiB; size += kKiB) {
      free(get(size));
      expected += size;
    }
  }
  const uint64_t more = figure("thread.allocated") - allocated;
  const uint64_t less = figure("thread.deallocated") - deallocated;
  // Reading them may allocate, too.
  if (more < expected || more > expected + kMost)
    verdict.broken("%lu of %lu allocated", more, expected);
  if (less < expected || less > expected + kMost)
    verdict.broken("%lu of %lu freed", less, expected);
}

// Objects of other sizes come to lie where the dropped ones lay.
void check_reset() {
  use_all_sizes();
  for (int round = 0; round < 20; ++round) {
    unsigned arena = 0;
    size_t length = sizeof arena;
    if (engine().mallctl("arenas.create", &arena, &length, nullptr, 0) != 0) {
      probe::skip("no arenas can be made");
    }
    unsigned before = 0;
    length = sizeof before;
    engine().mallctl("thread.arena", &before, &length, &arena, sizeof arena);
    for (size_t size = kLeast; size <= 32 * kKiB; size += kStep) {
      for (int i = 0; i < 30; ++i) (void)get(size);
    }
    engine().mallctl("thread.arena", nullptr, nullptr, &before, sizeof before);
    engine().mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", arena, round % 2 == 0 ? "reset" : "destroy");
    if (engine().mallctl(name, nullptr, nullptr, nullptr, 0) != 0) verdict.broken("%s", name);
    // Small ones, many of which begin where a dropped one began.
    std::vector<char*> small;
    for (int i = 0; i < 4000; ++i) {
      small.push_back(get(512 + static_cast<size_t>(i) % 7 * 512));
      memset(small.back(), i & 0xff, 512);
    }
    for (char* object : small) free(object);
    for (size_t i = 0; i < small.size(); ++i) {
      small[i] = get(kLeast + i % 60 * kKiB);
      memset(small[i], static_cast<int>(i & 0xff), kLeast + i % 60 * kKiB);
    }
    for (size_t i = 0; i < small.size(); ++i) {
      const size_t last = kLeast + i % 60 * kKiB - 1;
      const auto byte = static_cast<char>(i & 0xff);
      if (small[i][0] != byte || small[i][last] != byte) verdict.broken("an object changed");
      free(small[i]);
    }
  }
}

void check_holes() {
  use_all_sizes();
  constexpr size_t kSize = 48 * kKiB;
  std::vector<char*> objects;
  for (int i = 0; i < 64; ++i) objects.push_back(get(kSize));
  std::vector<char*> holes;
  for (size_t i = 0; i < objects.size(); i += 2) {
    char* const hole = objects[i] + 2 * probe::kPage;
    if (munmap(hole, 2 * probe::kPage) != 0) verdict.broken("munmap");
    holes.push_back(hole);
  }
  for (char* object : objects) free(object);
  for (int i = 0; i < 2000; ++i) {
    char* const object = get(kSize);
    for (const char* hole : holes) {
      if (object < hole + 2 * probe::kPage && hole < object + kSize) {
        return verdict.broken("a hole was handed out");
      }
    }
    memset(object, 'x', kSize);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const char* const what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "misuse") == 0)
    misuse(argc > 2 ? argv[2] : "", probe::argument(argc, argv, 3, kMost));
  if (strcmp(what, "threads") == 0) check_threads();
  if (strcmp(what, "handed") == 0) check_handed();
  if (strcmp(what, "figures") == 0) check_figures();
  if (strcmp(what, "reset") == 0) check_reset();
  if (strcmp(what, "holes") == 0) check_holes();
  return verdict.status();
}
