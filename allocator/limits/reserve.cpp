// What happens before main. RDMALLOC_RESERVE is pinned here; if that fails, the program ends now
// with a message rather than in the middle of its work.
#include <stdlib.h>
#include <unistd.h>

#include "allocator/limits/holders.h"
#include "allocator/message.h"
#include "allocator/pages/heap.h"
#include "allocator/report/report.h"
#include "allocator/report/stats.h"

namespace rdmalloc {
namespace {

// The command exits with the same status when it runs nothing.
constexpr int kExitRefused = 2;

[[noreturn]] void end_program(size_t bytes) {
  const rdm_stats books = gather_stats();
  Message message;
  message.add("rdmalloc: RDMALLOC_RESERVE asks for ").add_size(bytes);
  message.add(" pinned before the program starts, and they cannot be had: ");
  say_who_holds_memory(books, &message);
  message.send();
  _exit(kExitRefused);
}

// Runs before the constructors of the program and of libraries that depend on this one.
[[gnu::constructor(101)]] void before_main() {
  if (!heap.booted()) free(malloc(1));
  meet_watcher();
  const uint64_t bytes = heap.budget().resolve(heap.options().amount(OptionId::reserve));
  if (bytes != 0 && !heap.reserve(bytes)) end_program(bytes);
}

}  // namespace
}  // namespace rdmalloc
