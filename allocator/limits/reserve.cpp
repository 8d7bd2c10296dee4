// What happens before main. RDMALLOC_RESERVE is pinned here; if that fails, the program ends now
// with a message rather than in the middle of its work.
#include <unistd.h>

#include "allocator/limits/holders.h"
#include "allocator/message.h"
#include "allocator/os/environment.h"
#include "allocator/os/standard_error.h"
#include "allocator/pages/heap.h"
#include "allocator/report/report.h"
#include "allocator/report/stats.h"

namespace rdmalloc {
namespace {

// The command exits with the same status when it runs nothing.
constexpr int kExitRefused = 2;

// Ends the program if they cannot be had.
void reserve(size_t bytes) {
  Message message;
  message.add("rdmalloc: RDMALLOC_RESERVE asks for ").add_size(bytes);
  message.add(" pinned before the program starts, and they cannot be had");
  if (heap.growth().reserve(bytes, &message)) return;
  message.add(": ");
  say_who_holds_memory(gather_stats(), &message);
  message.send();
  _exit(kExitRefused);
}

// Any option, even one that is not understood, and any of jemalloc's.
bool is_asked_for_something() {
  bool is_asked = false;
  for (const char* const prefix : {"RDMALLOC_", "MALLOC_CONF="}) {
    os::for_each_environment(
        prefix, [](void* found, os::Text) { *static_cast<bool*>(found) = true; }, &is_asked);
  }
  return is_asked;
}

// Runs before the constructors of the program and of libraries that depend on this one. Unless the
// environment asks for something, the heap starts at the first malloc: many a process has none.
[[gnu::constructor(101)]] void before_main() {
  os::remember_standard_error();
  if (!is_asked_for_something()) return;
  start_heap();
  meet_watcher();
  const uint64_t bytes = heap.budget().resolve(heap.options().amount(OptionId::reserve));
  if (bytes != 0) reserve(bytes);
}

}  // namespace
}  // namespace rdmalloc
