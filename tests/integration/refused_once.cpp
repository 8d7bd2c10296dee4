// Threads that start when memory is used up, except for what another arena keeps: their first
// malloc is refused, the library then finds those pages, and the thread must get a complete cache.
// When asked for statistics, jemalloc walks the caches of all living threads.
#include <pthread.h>

#include <initializer_list>

#include "tests/integration/engine_api.h"

namespace {

probe::Verdict verdict;
pthread_barrier_t turn;

constexpr size_t kThreads = 100;
constexpr size_t kReserve = 400;
constexpr size_t kPiece = 40000;  // small enough for an arena to keep when freed

void exhaust() {
  for (const size_t size : {size_t{1} << 20, kPiece, size_t{12288}, size_t{4096}}) {
    while (malloc(size) != nullptr) {
    }
  }
}

void use_arena(unsigned arena) {
  if (probe::engine().mallctl("thread.arena", nullptr, nullptr, &arena, sizeof arena) != 0) {
    verdict.broken("cannot choose arena %u", arena);
  }
}

// Holds pieces of its own arena and frees two per turn: the only free memory.
void* keep_reserve(void*) {
  use_arena(1);
  static void* reserve[kReserve];
  size_t held = 0;
  while (held < kReserve) {
    void* piece = malloc(kPiece);
    if (piece == nullptr) break;
    reserve[held++] = piece;
  }
  if (held < 2 * kThreads) verdict.broken("a reserve of %zu pieces is too small", held);
  exhaust();
  pthread_barrier_wait(&turn);  // the reserve exists, and nothing else
  for (size_t i = 0; i < kThreads; ++i) {
    pthread_barrier_wait(&turn);
    for (int piece = 0; piece < 2 && held > 0; ++piece) free(reserve[--held]);
    pthread_barrier_wait(&turn);
  }
  return nullptr;
}

void* work(void* result) {
  bool has_cache = false;
  size_t length = sizeof has_cache;
  void* pointer = malloc(100);
  if (pointer != nullptr) memset(pointer, 1, 100);
  probe::engine().mallctl("thread.tcache.enabled", &has_cache, &length, nullptr, 0);
  free(pointer);
  *static_cast<bool*>(result) = pointer != nullptr && has_cache;
  return nullptr;
}

// Starts threads with a stack size that no ended thread has left: the old stacks, with jemalloc's
// data on them, are unmapped to make room, so a pointer into them is noticed.
void unmap_old_stacks() {
  pthread_attr_t large;
  pthread_attr_init(&large);
  pthread_attr_setstacksize(&large, size_t{48} << 20);
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    const auto idle = [](void*) -> void* { return nullptr; };
    if (pthread_create(&thread, &large, idle, nullptr) == 0) pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&large);
}

}  // namespace

int main() {
  if (probe::engine().mallctl == nullptr) probe::refused("no jemalloc here");
  alarm(40);
  setvbuf(stdout, nullptr, _IONBF, 0);  // a buffer would have to be allocated
  use_arena(0);
  pthread_barrier_init(&turn, nullptr, 2);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{1} << 20);
  pthread_t keeper;
  if (pthread_create(&keeper, &attributes, keep_reserve, nullptr) != 0) {
    probe::refused("cannot start a thread");
  }
  pthread_barrier_wait(&turn);
  size_t started = 0;
  size_t whole = 0;
  for (size_t i = 0; i < kThreads; ++i) {
    exhaust();
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    bool result = false;
    pthread_t thread;
    if (pthread_create(&thread, &attributes, work, &result) != 0) continue;
    ++started;
    pthread_join(thread, nullptr);
    if (result) ++whole;
  }
  pthread_join(keeper, nullptr);
  printf("%zu threads started, %zu of them with a cache\n", started, whole);
  if (started == 0) verdict.broken("no thread could start");
  unmap_old_stacks();
  const rdm_stats now = probe::stats();
  if (now.allocated_bytes == 0 || now.held_bytes == 0) verdict.broken("the statistics are empty");
  return verdict.status();
}
