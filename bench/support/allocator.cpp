#include "bench/support/allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/support/child.h"

namespace rdmalloc::bench {

const Allocator& ours() {
  static const Allocator allocator{"rdmalloc", RDMALLOC_LIBRARY, "librdmalloc"};
  return allocator;
}

const Allocator& glibc() {
  static const Allocator allocator{"glibc", "", "libc.so"};
  return allocator;
}

const Allocator& glibc_tuned() {
  // In bytes: glibc reads 1G as 1, which would send every malloc to mmap.
  static const Allocator allocator{
      "glibc tuned",
      "",
      "libc.so",
      {"MALLOC_MMAP_THRESHOLD_=1073741824", "MALLOC_TRIM_THRESHOLD_=4294967296",
       "MALLOC_TOP_PAD_=67108864"}};
  return allocator;
}

const Allocator& jemalloc() {
  static const Allocator allocator{"jemalloc", "libjemalloc.so.2", "libjemalloc"};
  return allocator;
}

const std::vector<Allocator>& peers() {
  static const std::vector<Allocator> usable = [] {
    std::vector<Allocator> found;
    for (const Allocator& peer :
         {jemalloc(), glibc(), Allocator{"mimalloc", "libmimalloc.so.2.0", "libmimalloc"},
          Allocator{"tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc_minimal"}}) {
      if (is_usable(peer)) found.push_back(peer);
    }
    return found;
  }();
  return usable;
}

std::vector<Allocator> peers_and_tuned() {
  std::vector<Allocator> all = peers();
  if (is_usable(glibc_tuned())) all.push_back(glibc_tuned());
  return all;
}

bool is_usable(const Allocator& allocator) {
  const Outcome outcome = run(workload({"owner"}), allocator);
  if (outcome.started && outcome.output.find(allocator.malloc_from) != std::string::npos) {
    return true;
  }
  fprintf(stderr, "skipped: %s: preloading \"%s\" does not change malloc (not installed?)\n",
          allocator.name.c_str(), allocator.library.c_str());
  return false;
}

bool is_short_form() {
  const char* value = getenv("BENCH_SHORT");
  return value != nullptr && strcmp(value, "0") != 0;
}

int rounds(int full) { return is_short_form() ? 1 : full; }

}  // namespace rdmalloc::bench
