// Which breakage the environment asks for: RDM_BREAK=NAME, one or none in a process.
#include "allocator/breakage.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rdmalloc {

// Says once that it was reached, so that a test can tell a breakage that went unnoticed from one
// that nothing comes by.
bool is_broken(const char* breakage) {
  static const char* const wanted = getenv("RDM_BREAK");
  if (wanted == nullptr || strcmp(wanted, breakage) != 0) return false;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) fprintf(stderr, "broken on purpose: %s\n", breakage);
  return true;
}

}  // namespace rdmalloc
