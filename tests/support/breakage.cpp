// Reads from the environment which breakage to apply: RDM_BREAK=NAME, at most one per process.
#include "allocator/breakage.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rdmalloc {

// Reports the first time a breakage is reached, so that a test can tell "nobody noticed" from
// "never reached".
bool is_broken(const char* breakage) {
  static const char* const wanted = getenv("RDM_BREAK");
  if (wanted == nullptr || strcmp(wanted, breakage) != 0) return false;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) fprintf(stderr, "broken on purpose: %s\n", breakage);
  return true;
}

}  // namespace rdmalloc
