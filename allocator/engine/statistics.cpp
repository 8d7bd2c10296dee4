// mallctl's statistics of the whole process, as a database displays them, with the page heap's part
// included: jemalloc only knows its own extents.
//
// Called by the program, outside malloc.
#include <string.h>

#include <cstddef>
#include <initializer_list>

#include "allocator/engine/front_cache.h"
#include "allocator/engine/jemalloc.h"
#include "allocator/os/limits.h"
#include "allocator/pages/heap.h"
#include "allocator/pages/heap_counters.h"

using namespace rdmalloc;
using namespace rdmalloc::engine;

namespace {

enum class Statistic : uint8_t { kNone, kAllocated, kActive, kMapped, kResident };

struct Name {
  const char* name;
  Statistic which;
};
constexpr Name kNames[] = {{"stats.allocated", Statistic::kAllocated},
                           {"stats.active", Statistic::kActive},
                           {"stats.mapped", Statistic::kMapped},
                           {"stats.resident", Statistic::kResident}};

Statistic by_name(const char* name) {
  for (const Name& known : kNames) {
    if (strcmp(name, known.name) == 0) return known.which;
  }
  return Statistic::kNone;
}

// Each name has two numbers; the first stands for "stats".
constexpr size_t kNumbers = 2;

Statistic by_mib(const size_t* mib) {
  for (const Name& known : kNames) {
    size_t its[kNumbers];
    size_t length = kNumbers;
    if (mallctlnametomib(known.name, its, &length) != 0) continue;
    if (mib[0] != its[0]) return Statistic::kNone;
    if (mib[1] == its[1]) return known.which;
  }
  return Statistic::kNone;
}

size_t metadata() {
  size_t value = 0;
  size_t size = sizeof value;
  return je_mallctl("stats.metadata", &value, &size, nullptr, 0) == 0 ? value : 0;
}

// jemalloc's answer, corrected.
size_t whole(Statistic which, size_t of_jemalloc) {
  switch (which) {
    case Statistic::kAllocated:
    case Statistic::kActive:
      return of_jemalloc + live_blocks(heap.store());
    case Statistic::kMapped:
      return heap.budget().charges().held() + metadata();
    case Statistic::kResident: {
      const size_t held = heap.budget().charges().held() + metadata();
      const size_t resident = os::resident_memory();
      return resident != 0 && resident < held ? resident : held;
    }
    case Statistic::kNone:
      break;
  }
  return of_jemalloc;
}

bool begins_with(const char* name, const char* what) {
  return strncmp(name, what, strlen(what)) == 0;
}

// An arena's objects go unasked then, and others come to lie at their addresses.
bool drops_objects(const char* name) {
  return begins_with(name, "arena.") &&
         (strstr(name, ".reset") != nullptr || strstr(name, ".destroy") != nullptr);
}

struct Call {
  bool is_of_thread;  // may be about the thread's figures
  bool drops;         // may free objects by other ways than free()
  bool reads;
  bool writes;
};

// The front cache must not hide anything from it.
void prepare(const Call& call) {
  if (call.is_of_thread && call.reads) FrontCache::add_to_figures();
  if (call.reads && !call.writes) return;
  FrontCache::empty();
  if (call.drops) heap.store().front_table.forget_all();
}

int corrected(Statistic which, int error, void* old, const size_t* old_size) {
  if (error != 0 || which == Statistic::kNone || old == nullptr) return error;
  if (old_size == nullptr || *old_size != sizeof(size_t)) return error;
  auto* const value = static_cast<size_t*>(old);
  *value = whole(which, *value);
  return error;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int mallctl(const char* name, void* old, size_t* old_size,
                                           void* next, size_t next_size) noexcept {
  if (name != nullptr) {
    prepare({.is_of_thread = begins_with(name, "thread."),
             .drops = drops_objects(name),
             .reads = old != nullptr,
             .writes = next != nullptr});
  }
  const int error = je_mallctl(name, old, old_size, next, next_size);
  return name == nullptr ? error : corrected(by_name(name), error, old, old_size);
}

[[gnu::visibility("default")]] int mallctlbymib(const size_t* mib, size_t length, void* old,
                                                size_t* old_size, void* next,
                                                size_t next_size) noexcept {
  // What the numbers stand for is jemalloc's secret.
  prepare({.is_of_thread = true,
           .drops = old == nullptr && next == nullptr,
           .reads = old != nullptr,
           .writes = next != nullptr});
  const int error = je_mallctlbymib(mib, length, old, old_size, next, next_size);
  if (error != 0 || old == nullptr || length != kNumbers) return error;
  return corrected(by_mib(mib), error, old, old_size);
}

}  // extern "C"
