// Objects of 4 to 256 KiB, which threads keep for their next mallocs once there were
// many of them.
//
//   front misuse WAY SIZE   ends by abort with a message: a pointer is used after it was freed
//   front threads           what threads keep goes back when they end, also if they only free
//   front handed            what one thread mallocs another one frees, for long: little is kept
//   front figures           jemalloc's figures for the thread count what is kept, too
//   front reset             an arena's objects may be dropped while this thread keeps others
//   front holes SIZE        what the program unmapped of such objects is never handed out
//   front contents          objects that come and go in several threads, and between them, keep
//                           their first and last words; too fast for these to be all written
//   front left              a thread that has freed all it had leaves most of it to others
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/engine_api.h"

namespace {

using probe::engine;

constexpr size_t kKiB = 1024;
constexpr size_t kLeast = 4 * kKiB + 1;
constexpr size_t kUsual = 64 * kKiB;
constexpr size_t kMost = 256 * kKiB;
constexpr size_t kStep = kKiB;
constexpr size_t kBigStep = 8 * kKiB;

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

std::vector<size_t> all_sizes() {
  std::vector<size_t> sizes;
  for (size_t size = kLeast; size <= kUsual; size += kStep) sizes.push_back(size);
  for (size_t size = kUsual + kBigStep; size <= kMost; size += kBigStep) sizes.push_back(size);
  return sizes;
}

void free_all(std::vector<char*>& objects) {
  for (char* object : objects) free(object);
  objects.clear();
}

// Objects of each size come and go, several at a time, until the thread keeps some of each.
void use_all_sizes() {
  constexpr int kAtOnce = 12;
  std::vector<char*> objects;
  for (int round = 0; round < 8; ++round) {
    for (const size_t size : all_sizes()) {
      for (int i = 0; i < kAtOnce; ++i) objects.push_back(get(size));
      free_all(objects);
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
    for (size_t size = kLeast; size <= kUsual; size += 4 * kStep) objects.push_back(get(size));
    for (size_t size = kUsual; size <= kMost; size += 8 * kBigStep) objects.push_back(get(size));
    std::thread([&objects] { free_all(objects); }).join();
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
    for (size_t size = kLeast; size <= kUsual; size += kStep) objects.push_back(get(size));
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
  if (more < expected || more > expected + kUsual)
    verdict.broken("%lu of %lu allocated", more, expected);
  if (less < expected || less > expected + kUsual)
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

void check_holes(size_t size) {
  use_all_sizes();
  std::vector<char*> objects;
  for (int i = 0; i < 64; ++i) objects.push_back(get(size));
  std::vector<char*> holes;
  for (size_t i = 0; i < objects.size(); i += 2) {
    char* const hole = objects[i] + 2 * probe::kPage;
    if (munmap(hole, 2 * probe::kPage) != 0) verdict.broken("munmap");
    holes.push_back(hole);
  }
  free_all(objects);
  for (int i = 0; i < 2000; ++i) {
    char* const object = get(size);
    for (const char* hole : holes) {
      if (object < hole + 2 * probe::kPage && hole < object + size) {
        return verdict.broken("a hole was handed out");
      }
    }
    memset(object, 'x', size);
    objects.push_back(object);
    if (objects.size() == 64) free_all(objects);
  }
  free_all(objects);
}

// An object whose ends say what it is.
struct Marked {
  char* object = nullptr;
  size_t size = 0;
  uint64_t number = 0;

  uint64_t* first() const { return reinterpret_cast<uint64_t*>(object); }
  char* last() const { return object + size - sizeof number; }
  void mark() const {
    *first() = number;
    memcpy(last(), &number, sizeof number);
  }
  bool is_whole() const {
    return *first() == number && memcmp(last(), &number, sizeof number) == 0;
  }
};

void check_contents() {
  constexpr int kThreads = 3;
  constexpr size_t kLive = 48;
  constexpr size_t kMailboxes = 64;
  constexpr int kTurns = 200'000;
  std::vector<std::atomic<Marked*>> mailboxes(kMailboxes);
  std::atomic<uint64_t> bad{0};
  const auto work = [&](uint64_t seed) {
    probe::Random random(seed);
    const std::vector<size_t> sizes = all_sizes();
    std::vector<Marked> live(kLive);
    const auto end = [&bad](const Marked& marked) {
      if (marked.object != nullptr && !marked.is_whole()) ++bad;
      free(marked.object);
    };
    for (int turn = 0; turn < kTurns; ++turn) {
      Marked& marked = live[random.below(kLive)];
      end(marked);
      // Around the border above which nothing is kept, too.
      const size_t size = sizes[random.below(sizes.size())] + random.below(kBigStep);
      marked = {get(size), size, seed << 32 | static_cast<uint64_t>(turn)};
      marked.mark();
      if (turn % 16 == 0) {
        Marked* const got = mailboxes[random.below(kMailboxes)].exchange(new Marked(marked));
        marked = {};
        if (got != nullptr) end(*got);
        delete got;
      }
      // Changed in place, moved or copied: what was asked of it is whole.
      if (turn % 32 == 1 && marked.object != nullptr) {
        const size_t other = sizes[random.below(sizes.size())];
        auto* const moved = static_cast<char*>(realloc(marked.object, other));
        if (moved == nullptr) probe::refused("realloc");
        if (*reinterpret_cast<uint64_t*>(moved) != marked.number) ++bad;
        marked = {moved, other, marked.number};
        marked.mark();
      }
    }
    for (const Marked& marked : live) end(marked);
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  for (auto& mailbox : mailboxes) {
    Marked* const got = mailbox.load();
    if (got == nullptr) continue;
    if (!got->is_whole()) ++bad;
    free(got->object);
    delete got;
  }
  if (bad != 0) verdict.broken("%lu objects changed", bad.load());
}

// Of a cap of 128 MiB: a thread frees 90 MiB, after it has used such objects fast, and lives on.
// Blocks that no thread keeps need 100 MiB of it.
void check_left() {
  constexpr size_t kFreed = size_t{90} << 20;
  constexpr size_t kBlock = size_t{2} << 20;
  constexpr int kBlocks = 50;
  pthread_barrier_t both;
  pthread_barrier_init(&both, nullptr, 2);
  std::thread other([&both] {
    const std::vector<size_t> sizes = all_sizes();
    std::vector<char*> objects;
    for (int round = 0; round < 20; ++round) {
      for (size_t bytes = 0, i = 0; bytes < kFreed; ++i) {
        const size_t size = sizes[i % sizes.size()];
        objects.push_back(get(size));
        bytes += size;
      }
      free_all(objects);
    }
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
  });
  pthread_barrier_wait(&both);
  std::vector<char*> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    auto* const block = static_cast<char*>(malloc(kBlock));
    if (block == nullptr) verdict.broken("only %d of %d blocks were to be had", i, kBlocks);
    if (block == nullptr) break;
    blocks.push_back(again(block));
  }
  free_all(blocks);
  pthread_barrier_wait(&both);
  other.join();
  pthread_barrier_destroy(&both);
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const char* const what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "misuse") == 0)
    misuse(argc > 2 ? argv[2] : "", probe::argument(argc, argv, 3, kUsual));
  if (strcmp(what, "threads") == 0) check_threads();
  if (strcmp(what, "handed") == 0) check_handed();
  if (strcmp(what, "figures") == 0) check_figures();
  if (strcmp(what, "reset") == 0) check_reset();
  if (strcmp(what, "holes") == 0) check_holes(probe::argument(argc, argv, 2, kUsual));
  if (strcmp(what, "contents") == 0) check_contents();
  if (strcmp(what, "left") == 0) check_left();
  return verdict.status();
}
