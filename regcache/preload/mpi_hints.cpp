#include "regcache/preload/mpi_hints.h"

#include <stdlib.h>
#include <string.h>

#include "regcache/preload/mpi_settings.h"

namespace rdmalloc::mpi {
namespace {

constexpr int kValueSize = 256;

struct Value {
  char text[kValueSize + 1] = {};
  bool is_there = false;
};

Value value_of(const RealMpi& real, Handle info, const char* key) {
  Value value;
  int flag = 0;
  value.is_there = real.info_get(info, key, kValueSize, value.text, &flag) == 0 && flag != 0;
  return value;
}

// Open MPI's: a list of name=value. Its own pools are asked for by name, and so is ours.
bool asks_for_another_pool(const Value& hints) {
  return hints.is_there && strcasestr(hints.text, "mpool=rdmalloc") == nullptr;
}

}  // namespace

Hints read_hints(const RealMpi& real, Handle info) {
  Hints hints;
  hints.exposed = settings().exposed;
  const Value exposed = value_of(real, info, "rdmalloc_exposed");
  if (exposed.is_there) hints.exposed = strcasecmp(exposed.text, "true") == 0;

  const Value alignment = value_of(real, info, "mpi_minimum_memory_alignment");
  if (alignment.is_there) {
    char* end = nullptr;
    const long long asked = strtoll(alignment.text, &end, 10);
    // What to make of nonsense is the MPI library's to say.
    hints.theirs = asked <= 0 || (asked & (asked - 1)) != 0 || *end != '\0';
    if (!hints.theirs) hints.align = static_cast<size_t>(asked);
  }
  // MPICH's key names memory of devices.
  hints.theirs = hints.theirs || asks_for_another_pool(value_of(real, info, "mpool_hints")) ||
                 value_of(real, info, "mpich_buf_type").is_there;
  return hints;
}

}  // namespace rdmalloc::mpi
