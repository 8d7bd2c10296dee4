// Every pointer from every allocation function, from before main to the last exit handler, lies in
// one region of the window. Without the library, every pointer counts as outside.
//
//   coverage MIB   the largest size, requested only by the main thread
#include <malloc.h>
#include <stdio.h>
#include <wchar.h>

#include <atomic>
#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/integration/engine_api.h"
#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;
std::atomic<uint64_t> seen{0};
std::atomic<uint64_t> outside{0};

void* note(void* pointer, size_t size, const char* call) {
  if (pointer == nullptr) {
    verdict.broken("%s of %zu bytes failed", call, size);
    return nullptr;
  }
  seen += 1;
  const probe::Library& library = probe::library();
  const size_t usable = malloc_usable_size(pointer);
  if (usable < size) verdict.broken("%s of %zu bytes: %zu usable", call, size, usable);
  rdm_region region;
  if (library.loaded() && library.owns(pointer) == 1 &&
      probe::region_of(pointer, usable, &region)) {
    return pointer;
  }
  outside += 1;
  verdict.broken("%s of %zu bytes at %p lies outside", call, size, pointer);
  return pointer;
}

void libc_family(size_t size) {
  free(note(malloc(size), size, "malloc"));
  free(note(calloc(1, size), size, "calloc"));
  free(note(realloc(nullptr, size), size, "realloc"));
  free(note(realloc(malloc(size / 2 + 1), size), size, "growing realloc"));
  free(note(realloc(malloc(size + size / 2), size), size, "shrinking realloc"));
  free(note(reallocarray(nullptr, 1, size), size, "reallocarray"));
  for (const size_t alignment : {size_t{16}, size_t{64}, size_t{4096}, size_t{1} << 21}) {
    void* out = nullptr;
    if (posix_memalign(&out, alignment, size) != 0) out = nullptr;
    free(note(out, size, "posix_memalign"));
    free(note(aligned_alloc(alignment, size), size, "aligned_alloc"));
    free(note(memalign(alignment, size), size, "memalign"));
  }
  free(note(valloc(size), size, "valloc"));
  free(note(pvalloc(size), size, "pvalloc"));
}

void operators(size_t size) {
  constexpr std::align_val_t kAlignment{128};
  ::operator delete(note(::operator new(size), size, "new"));
  ::operator delete(note(::operator new(size), size, "new, sized delete"), size);
  ::operator delete[](note(::operator new[](size), size, "new[]"));
  ::operator delete[](note(::operator new[](size), size, "new[], sized delete"), size);
  ::operator delete(note(::operator new(size, std::nothrow), size, "nothrow new"), std::nothrow);
  ::operator delete[](note(::operator new[](size, std::nothrow), size, "nothrow new[]"),
                      std::nothrow);
  ::operator delete(note(::operator new(size, kAlignment), size, "aligned new"), kAlignment);
  ::operator delete(note(::operator new(size, kAlignment), size, "aligned new"), size, kAlignment);
  ::operator delete[](note(::operator new[](size, kAlignment), size, "aligned new[]"), kAlignment);
  ::operator delete[](
      note(::operator new[](size, kAlignment, std::nothrow), size, "aligned nothrow new[]"),
      kAlignment, std::nothrow);
  ::operator delete(
      note(::operator new(size, kAlignment, std::nothrow), size, "aligned nothrow new"), kAlignment,
      std::nothrow);
}

void engine_family(size_t size) {
  const probe::Engine& engine = probe::engine();
  if (engine.mallocx == nullptr) return;
  engine.dallocx(note(engine.mallocx(size, 0), size, "mallocx"), 0);
  engine.dallocx(note(engine.mallocx(size, probe::kZeroFlag), size, "zeroed mallocx"), 0);
  const int aligned = probe::align_flag(8192) | probe::kNoTcacheFlag;
  engine.sdallocx(note(engine.mallocx(size, aligned), size, "aligned mallocx"), size, aligned);
  void* moved = engine.rallocx(engine.mallocx(size / 2 + 1, 0), size, 0);
  engine.sdallocx(note(moved, size, "rallocx"), size, 0);
  unsigned arena = 0;
  size_t length = sizeof arena;
  static std::atomic<int> arenas{0};
  if (arenas.fetch_add(1) >= 4 || engine.mallctl("arenas.create", &arena, &length, nullptr, 0)) {
    return;
  }
  const int own = probe::arena_flag(arena) | probe::kNoTcacheFlag;
  engine.dallocx(note(engine.mallocx(size, own), size, "mallocx in an arena of its own"), own);
}

// Libraries call malloc too.
void callers() {
  free(note(strdup("a text"), 7, "strdup"));
  free(note(strndup("a text", 3), 4, "strndup"));
  free(note(wcsdup(L"wide"), 5 * sizeof(wchar_t), "wcsdup"));
  char* text = nullptr;
  if (asprintf(&text, "%d %s", 42, "printed") > 0) free(note(text, 11, "asprintf"));
  text = nullptr;
  size_t capacity = 0;
  FILE* file = fopen("/proc/self/status", "r");
  if (file != nullptr && getline(&text, &capacity, file) > 0) {
    note(text, capacity, "getline");
  }
  free(text);
  if (file != nullptr) fclose(file);
  FILE* memory = open_memstream(&text, &capacity);
  fputs("to memory", memory);
  fclose(memory);
  free(note(text, capacity + 1, "open_memstream"));
  free(note(realpath("/proc/self/..", nullptr), 2, "realpath"));
  free(note(getcwd(nullptr, 0), 2, "getcwd"));

  std::vector<int> numbers(1000, 1);
  note(numbers.data(), 4000, "std::vector");
  std::string long_text(300, 'x');
  note(long_text.data(), 300, "std::string");
  std::map<int, int> tree;
  note(&*tree.emplace(1, 2).first, sizeof(int), "std::map");
  std::unordered_map<int, int> table{{1, 2}};
  note(&*table.begin(), sizeof(int), "std::unordered_map");
  std::pmr::vector<int> pooled(100, std::pmr::new_delete_resource());
  note(pooled.data(), 400, "std::pmr::vector");
}

void everything(size_t most) {
  for (const size_t size : {1, 8, 16, 17, 100, 1000, 4096, 10000, 14336, 16384, 20000, 32768, 32769,
                            50000, 100000, 1 << 20, (3 << 20) + 1, 64 << 20}) {
    if (size > most) break;
    libc_family(size);
    operators(size);
    engine_family(size);
  }
  callers();
}

void before_main(int, char**, char**) {
  libc_family(100);
  libc_family(40000);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*preinit)(int, char**, char**) = before_main;

[[gnu::constructor]] void in_constructor() { libc_family(70000); }

struct Everywhere {
  Everywhere() { everything(100000); }
  ~Everywhere() { everything(100000); }
};
Everywhere static_object;
thread_local Everywhere thread_object;

// The last exit handler to run.
struct Final {
  Final() {
    atexit([] {
      everything(100000);
      printf("%lu objects, %lu outside\n", seen.load(), outside.load());
      fflush(stdout);
      if (verdict.status() != 0) _exit(verdict.status());
    });
  }
};
[[gnu::init_priority(101)]] Final final_object;

}  // namespace

int main(int argc, char** argv) {
  const size_t most = probe::argument(argc, argv, 1, 64) << 20;
  everything(most);
  if (most > size_t{64} << 20) {
    free(note(malloc(most), most, "malloc"));
    free(note(calloc(1, most), most, "calloc"));
    ::operator delete[](note(::operator new[](most), most, "new[]"));
    free(note(aligned_alloc(1 << 21, most), most, "aligned_alloc"));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([] {
      (void)&thread_object;
      everything(1 << 20);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
