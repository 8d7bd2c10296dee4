// The malloc calls that a replay makes, and what it does with the blocks.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "allocator/trace/block_pattern.h"
#include "allocator/trace/replay.h"

namespace rdmalloc::trace {
namespace {

// The alignment that malloc guarantees for any type.
constexpr uint64_t kAlignment = alignof(max_align_t);

uint64_t alignment_of(const Event& event) {
  if (event.alignment_log2 != 0) return uint64_t{1} << event.alignment_log2;
  return event.size >= kAlignment ? kAlignment : 1;
}

void* call(const Event& event) {
  if (event.kind == EventKind::kAllocateZeroed && event.alignment_log2 == 0) {
    return calloc(1, event.size);
  }
  if (event.alignment_log2 == 0) return malloc(event.size);
  void* block = aligned_alloc(size_t{1} << event.alignment_log2, event.size);
  if (block != nullptr && event.kind == EventKind::kAllocateZeroed) memset(block, 0, event.size);
  return block;
}

}  // namespace

bool Replay::fail_at_event(const char* what) {
  return fail("event %llu, of %llu bytes for object %llu: %s",
              static_cast<unsigned long long>(events_run_),
              static_cast<unsigned long long>(event_.size),
              static_cast<unsigned long long>(event_.object), what);
}

bool Replay::apply(const Event& event) {
  if (options_.times) wait_for_its_time();
  if (!objects_.reach(event.object)) return fail_at_event("no memory to remember it");
  Object& object = objects_[event.object];
  note(event, makes_object(event.kind) ? 0 : object.size);
  bool is_good = false;
  if (makes_object(event.kind)) {
    is_good = allocate(event, object);
  } else if (event.kind == EventKind::kResize) {
    is_good = resize(event, object);
  } else {
    is_good = release(object);
  }
  ++events_run_;
  return is_good;
}

bool Replay::allocate(const Event& event, Object& object) {
  errno = 0;
  object.block = call(event);
  object.size = event.size;
  object.seed = events_run_;
  if (object.block == nullptr) {
    return event.size == 0 || fail_at_event(errno != 0 ? strerror(errno) : "malloc gave nothing");
  }
  return (!options_.check || check_new(event, object)) && fill(event, object, 0);
}

bool Replay::check_new(const Event& event, const Object& object) {
  if (reinterpret_cast<uintptr_t>(object.block) % alignment_of(event) != 0) {
    return fail_at_event("the block is not aligned as it was asked for");
  }
  if (event.kind == EventKind::kAllocateZeroed && !is_zero(object.block, object.size)) {
    return fail_at_event("the block is not zero, as it was asked for");
  }
  return true;
}

bool Replay::fill(const Event& event, Object& object, uint64_t from) {
  if (options_.check) {
    write_pattern(object.block, from, event.size, object.seed);
  } else if (options_.touch) {
    touch_pages(object.block, from, event.size);
  }
  return true;
}

bool Replay::resize(const Event& event, Object& object) {
  const uint64_t before = object.size;
  if (options_.check && !has_pattern(object.block, before, object.seed)) {
    return fail_at_event("the block has changed since it was written");
  }
  // With some allocators realloc to 0 bytes would free the block.
  errno = 0;
  void* block = realloc(object.block, std::max<uint64_t>(event.size, 1));
  if (block == nullptr) return fail_at_event(errno != 0 ? strerror(errno) : "realloc gave nothing");
  object.block = block;
  object.size = event.size;
  if (options_.check && !has_pattern(block, std::min(before, event.size), object.seed)) {
    return fail_at_event("realloc lost what was in the block");
  }
  return before >= event.size || fill(event, object, before);
}

bool Replay::release(Object& object) {
  if (options_.check && !has_pattern(object.block, object.size, object.seed)) {
    return fail_at_event("the block has changed since it was written");
  }
  free(object.block);
  object = {};
  return true;
}

void Replay::free_what_is_left() {
  for (uint64_t i = 0; i < objects_.size(); ++i) {
    free(objects_[i].block);
    objects_[i] = {};
  }
}

}  // namespace rdmalloc::trace
