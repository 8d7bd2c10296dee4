#include "regcache/preload/mpi/hints.h"

#include <stdlib.h>
#include <string.h>

#include "regcache/preload/mpi/settings.h"

namespace rdmalloc::mpi {
namespace {

constexpr int kValueSize = 256;

struct Value {
  char text[kValueSize + 1] = {};
  bool is_there = false;
  bool failed = false;  // and the library has reported it to the program
};

Value value_of(const RealMpi& real, Handle info, const char* key) {
  Value value;
  int flag = 0;
  value.failed = real.info_get(info, key, kValueSize, value.text, &flag) != 0;
  value.is_there = !value.failed && flag != 0;
  return value;
}

// Open MPI's hint, a list of name=value. It selects pools by name: Open MPI's own, or ours, with
// the options that the component in regcache/openmpi understands.
void read_pool_hints(const Value& value, Hints* hints) {
  if (!value.is_there) return;
  const bool ours = strcasestr(value.text, "mpool=rdmalloc") != nullptr;
  if (!ours) hints->theirs = true;
  if (ours && strcasestr(value.text, "exposed=true") != nullptr) hints->exposed = true;
}

}  // namespace

Hints read_hints(const RealMpi& real, Handle info) {
  Hints hints;
  hints.exposed = settings().exposed;
  const Value exposed = value_of(real, info, "rdmalloc_exposed");
  if (exposed.failed) {
    hints.theirs = true;
    return hints;
  }
  if (exposed.is_there) hints.exposed = strcasecmp(exposed.text, "true") == 0;

  const Value alignment = value_of(real, info, "mpi_minimum_memory_alignment");
  if (alignment.is_there) {
    char* end = nullptr;
    const long long asked = strtoll(alignment.text, &end, 10);
    // A nonsensical value is ignored, as MPI allows for hints: MPICH (4.0) divides by what it
    // reads.
    const bool sound = asked > 0 && (asked & (asked - 1)) == 0 && *end == '\0';
    if (sound) hints.align = static_cast<size_t>(asked);
  }
  // This key of MPICH's selects device memory.
  hints.theirs = value_of(real, info, "mpich_buf_type").is_there;
  read_pool_hints(value_of(real, info, "mpool_hints"), &hints);
  return hints;
}

}  // namespace rdmalloc::mpi
