// The program creates and destroys jemalloc arenas while memory runs out and the library searches
// all arenas for free pages.
//
//   arenas destroyed        some threads create, use and destroy arenas; others exhaust the memory
//                           cap
//   arenas hooked           one arena has extent hooks that malloc while holding the program's lock
//   arenas several-hooked   the same from several threads
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>

#include "tests/integration/engine_api.h"

namespace {

probe::Verdict verdict;
std::atomic<bool> stop{false};
std::atomic<uint64_t> destroyed{0};
std::atomic<uint64_t> refused{0};

constexpr size_t kMiB = size_t{1} << 20;

bool is_filled(const void* block, size_t size, int byte) {
  const auto* bytes = static_cast<const unsigned char*>(block);
  return bytes[0] == byte && bytes[size / 2] == byte && bytes[size - 1] == byte;
}

void* make_and_destroy(void*) {
  constexpr size_t kBlocks = 16;
  const auto size_of = [](size_t i) { return 20000 + i * 4096; };
  while (!stop) {
    unsigned arena = 0;
    size_t length = sizeof arena;
    if (probe::engine().mallctl("arenas.create", &arena, &length, nullptr, 0) != 0) continue;
    const int flags = probe::arena_flag(arena) | probe::kNoTcacheFlag;
    const int byte = static_cast<int>(arena & 0xff);
    void* blocks[kBlocks];
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks[i] = probe::engine().mallocx(size_of(i), flags);
      if (blocks[i] != nullptr) memset(blocks[i], byte, size_of(i));
    }
    for (size_t i = 0; i < kBlocks; ++i) {
      if (blocks[i] == nullptr) continue;
      if (!is_filled(blocks[i], size_of(i), byte)) verdict.broken("a block of an arena changed");
      probe::engine().dallocx(blocks[i], probe::kNoTcacheFlag);
    }
    char name[64];
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    if (probe::engine().mallctl(name, nullptr, nullptr, nullptr, 0) != 0) {
      verdict.broken("%s failed", name);
    }
    ++destroyed;
  }
  return nullptr;
}

// A refused request makes the library search all arenas for free pages.
void* exhaust(void*) {
  constexpr size_t kBlocks = 64;
  while (!stop) {
    if (malloc(64 * kMiB) == nullptr) ++refused;
    void* blocks[kBlocks];
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks[i] = malloc(kMiB);
      if (blocks[i] != nullptr) memset(blocks[i], 0x5a, kMiB);
    }
    for (void* block : blocks) {
      if (block != nullptr && !is_filled(block, kMiB, 0x5a)) verdict.broken("a block changed");
      free(block);
    }
  }
  return nullptr;
}

void run(void* (*const* works)(void*), size_t count, unsigned seconds) {
  pthread_t threads[8];
  for (size_t i = 0; i < count; ++i) {
    if (pthread_create(&threads[i], nullptr, works[i], nullptr) != 0) {
      probe::refused("cannot start a thread");
    }
  }
  sleep(seconds);
  stop = true;
  for (size_t i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
}

void check_destroyed() {
  constexpr void* (*kWorks[])(void*) = {make_and_destroy, exhaust, make_and_destroy, exhaust};
  run(kWorks, 4, 2);
  if (destroyed == 0) verdict.broken("no arena was destroyed");
  if (refused == 0) verdict.broken("nothing was refused");
}

// extent_hooks_t from jemalloc's header.
struct ExtentHooks {
  void* (*alloc)(ExtentHooks*, void*, size_t, size_t, bool*, bool*, unsigned);
  bool (*dalloc)(ExtentHooks*, void*, size_t, bool, unsigned);
  void (*destroy)(ExtentHooks*, void*, size_t, bool, unsigned);
  bool (*commit)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*decommit)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*purge_lazy)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*purge_forced)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*split)(ExtentHooks*, void*, size_t, size_t, size_t, bool, unsigned);
  bool (*merge)(ExtentHooks*, void*, size_t, void*, size_t, bool, unsigned);
};

pthread_mutex_t hooks_lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
std::atomic<uint64_t> hook_calls{0};
thread_local bool uses_arena = false;  // this thread is in a call that names the arena
thread_local bool is_in_hook = false;

class Hook {
 public:
  Hook() {
    ++hook_calls;
    if (is_in_hook) verdict.broken("a hook's own malloc called a hook");
    if (!uses_arena) verdict.broken("a hook was called from a call that has to do with others");
    locked_ = pthread_mutex_lock(&hooks_lock) == 0;
    is_in_hook = true;
    // Like any bookkeeping of a program; at some point there is no memory left.
    free(malloc(1));
    if (void* entry = malloc(kMiB)) kept_ = entry;
  }
  ~Hook() {
    is_in_hook = false;
    if (locked_) pthread_mutex_unlock(&hooks_lock);
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

 private:
  static void* volatile kept_;
  bool locked_ = false;
};

void* volatile Hook::kept_ = nullptr;

void* hook_alloc(ExtentHooks*, void* new_addr, size_t size, size_t alignment, bool* zero,
                 bool* commit, unsigned) {
  if (new_addr != nullptr) return nullptr;
  const Hook hook;
  void* got =
      mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  *zero = true;
  *commit = true;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(got) + alignment - 1) & ~(alignment - 1);
  return reinterpret_cast<void*>(start);
}

bool hook_dalloc(ExtentHooks*, void* address, size_t size, bool, unsigned) {
  const Hook hook;
  munmap(address, size);
  return false;
}

bool hook_split(ExtentHooks*, void*, size_t, size_t, size_t, bool, unsigned) { return false; }
bool hook_merge(ExtentHooks*, void*, size_t, void*, size_t, bool, unsigned) { return true; }

ExtentHooks hooks = {hook_alloc, hook_dalloc, nullptr,    nullptr,   nullptr,
                     nullptr,    nullptr,     hook_split, hook_merge};
unsigned hooked_arena = 0;

void* use_hooked(void*) {
  constexpr size_t kBlocks = 8;
  const int flags = probe::arena_flag(hooked_arena) | probe::kNoTcacheFlag;
  for (size_t round = 0; round < 1000; ++round) {
    void* blocks[kBlocks];
    uses_arena = true;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks[i] = probe::engine().mallocx(40000 + 4096 * i, flags);
      if (blocks[i] != nullptr) memset(blocks[i], 1, 40000);
    }
    for (void* block : blocks) {
      if (block != nullptr) probe::engine().dallocx(block, probe::kNoTcacheFlag);
    }
    uses_arena = false;
    // Beyond the cap this is refused, and the library searches for free pages.
    if (malloc(kMiB) == nullptr) ++refused;
  }
  return nullptr;
}

void check_hooked(size_t threads) {
  size_t length = sizeof hooked_arena;
  ExtentHooks* mine = &hooks;
  uses_arena = true;  // the arena's metadata lies in memory from its hooks
  if (probe::engine().mallctl("arenas.create", &hooked_arena, &length, &mine, sizeof mine) != 0) {
    verdict.broken("cannot create an arena");
    return;
  }
  uses_arena = false;
  constexpr void* (*kWorks[])(void*) = {use_hooked, use_hooked, use_hooked};
  run(kWorks, threads, 0);
  if (hook_calls == 0) verdict.broken("no hook was called");
  if (refused == 0) verdict.broken("nothing was refused");
}

}  // namespace

int main(int argc, char** argv) {
  if (probe::engine().mallctl == nullptr) probe::refused("no jemalloc here");
  alarm(40);
  const char* what = argc > 1 ? argv[1] : "destroyed";
  if (strcmp(what, "destroyed") == 0) check_destroyed();
  if (strcmp(what, "hooked") == 0) check_hooked(1);
  if (strcmp(what, "several-hooked") == 0) check_hooked(3);
  printf("%lu arenas destroyed, %lu calls of hooks, %lu refusals\n", destroyed.load(),
         hook_calls.load(), refused.load());
  return verdict.status();
}
