#include "regcache/shm/shape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "allocator/os/page_size.h"
#include "regcache/shm/layout.h"

namespace rdmalloc::shm {
namespace {

constexpr uint64_t kMostProcs = 65'536;
constexpr uint64_t kGigabyte = uint64_t{1} << 30;

struct Limit {
  const char* name;
  uint64_t value;
  uint64_t least;
  uint64_t most;
  bool power_of_two;

  bool holds() const {
    if (value < least || value > most) return false;
    return !power_of_two || (value & (value - 1)) == 0;
  }
};

int check_numbers(const Shape& shape, char* why, size_t why_size) {
  const bool inside = (shape.flags & RDM_SHM_EAGER_WITH_HEADER) != 0;
  const Limit limits[] = {
      {"procs", shape.procs, 1, kMostProcs, false},
      {"queue entries", shape.queue_entries, 2, 65'536, true},
      {"page size", shape.page_size, 4'096, kGigabyte, true},
      {"cacheline", shape.cacheline, 64, 4'096, true},
      {"eager limit", shape.eager_limit, inside ? kFragmentHeaderBytes + 1 : 1, kGigabyte, false},
      {"chunk size", shape.chunk_size, 1, kGigabyte, false},
      {"eager fragments", shape.eager_fragments, 1, 1'048'576, false},
      {"max fragments", shape.max_fragments, 1, 65'536, false},
      {"boxes", shape.boxes, 1, 1'024, false},
      {"box size", shape.box_size, 2 * shape.cacheline, 1'048'576, true},
  };
  for (const Limit& limit : limits) {
    if (limit.holds()) continue;
    return invalid(
        why, why_size, "%s must be %sfrom %llu to %llu, not %llu", limit.name,
        limit.power_of_two ? "a power of two " : "", static_cast<unsigned long long>(limit.least),
        static_cast<unsigned long long>(limit.most), static_cast<unsigned long long>(limit.value));
  }
  return RDM_OK;
}

template <class Number>
Number or_default(Number given, Number fallback) {
  return given == 0 ? fallback : given;
}

void fill_in_defaults(const rdm_shm_plan_options& given, Shape* out) {
  out->procs = given.procs;
  out->layout = given.layout;
  out->flags = given.flags;
  out->queue_entries = or_default<uint32_t>(given.queue_entries, RDM_SHM_QUEUE_ENTRIES);
  out->page_size = or_default<uint64_t>(given.page_size, os::page_size());
  out->cacheline = or_default<uint64_t>(given.cacheline, RDM_SHM_CACHELINE_SIZE);
  out->eager_limit = or_default<uint64_t>(given.eager_limit, RDM_SHM_EAGER_LIMIT);
  out->chunk_size = or_default<uint64_t>(given.chunk_size, RDM_SHM_CHUNK_SIZE);
  const uint32_t fragments = out->has_pairs() ? uint32_t{RDM_SHM_EAGER_FRAGMENTS} * given.procs
                                              : uint32_t{RDM_SHM_EAGER_FRAGMENTS_MPSC};
  out->eager_fragments = or_default<uint32_t>(given.eager_fragments, fragments);
  out->max_fragments = or_default<uint32_t>(given.max_fragments, RDM_SHM_MAX_FRAGMENTS);
  out->boxes = or_default<uint32_t>(given.boxes, RDM_SHM_BOXES);
  const uint64_t two_lines = 2 * out->cacheline;
  const uint64_t box_size = two_lines > RDM_SHM_BOX_SIZE ? two_lines : uint64_t{RDM_SHM_BOX_SIZE};
  out->box_size = or_default<uint64_t>(given.box_size, box_size);
}

}  // namespace

int invalid(char* why, size_t why_size, const char* format, ...) {
  if (why_size == 0) return RDM_INVALID;
  va_list words;
  va_start(words, format);
  vsnprintf(why, why_size, format, words);
  va_end(words);
  return RDM_INVALID;
}

int check(const Shape& shape, char* why, size_t why_size) {
  if (shape.layout > RDM_SHM_PAGE) {
    return invalid(why, why_size, "there is no layout %u", shape.layout);
  }
  constexpr uint32_t kKnown = RDM_SHM_MULTITHREADED | RDM_SHM_EAGER_WITH_HEADER;
  if ((shape.flags & ~kKnown) != 0 || shape.reserved != 0) {
    return invalid(why, why_size, "flags have bits that are not known here");
  }
  return check_numbers(shape, why, why_size);
}

int read_options(const rdm_shm_plan_options* given, Shape* out, char* why, size_t why_size) {
  rdm_shm_plan_options options = {};
  if (given == nullptr || given->size < offsetof(rdm_shm_plan_options, layout)) {
    return invalid(why, why_size,
                   "the options lack their size: set it to sizeof(rdm_shm_plan_options)");
  }
  memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
  *out = {};
  fill_in_defaults(options, out);
  return RDM_OK;
}

}  // namespace rdmalloc::shm
