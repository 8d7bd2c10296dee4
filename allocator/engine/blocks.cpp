#include "allocator/engine/blocks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/engine/jemalloc.h"
#include "allocator/message.h"

namespace rdmalloc {

// jemalloc's first extent starts it: see hooks.cpp.
void start_heap() {
  if (!heap.booted()) je_free(je_malloc(1));
}

}  // namespace rdmalloc

namespace rdmalloc::engine {

constinit size_t largest_small = 0;

namespace {

size_t size_of(const void* pointer, const char* call) {
  const size_t size = heap.blocks().size_of(pointer);
  if (size == 0) die(call, pointer);
  return size;
}

// No region: the program destroyed all of the block.
bool is_exposed(const void* pointer) {
  const Region* const region = heap.regions().find(pointer);
  return region != nullptr && region->exposed;
}

void zero_beyond(void* pointer, size_t before, size_t now) {
  if (now > before) memset(static_cast<char*>(pointer) + before, 0, now - before);
}

// Rounds up as malloc would.
size_t whole_pages(size_t size) {
  if (size > PTRDIFF_MAX) return 0;
  return size == 0 ? os::page_size() : os::page_ceil(size);
}

// For a block that grows and must be copied. If it grows by small steps, it keeps an eighth more
// for the next ones; each would copy it otherwise.
void* allocate_larger(size_t before, size_t size, size_t alignment) {
  if (SparePages::is_small_step(before, size)) {
    const size_t kept = os::page_floor(size / LargeBlocks::kShareKept);
    void* const larger = allocate_block(whole_pages(size) + kept, alignment, false);
    if (larger != nullptr && heap.blocks().resize(larger, size)) return larger;
    if (larger != nullptr) free_block(larger);
  }
  return allocate_block(size, alignment, false);
}

// Copies the bytes to new memory and frees the block.
void* copy_elsewhere(void* pointer, size_t before, size_t size, size_t alignment) {
  void* copy = nullptr;
  if (is_exposed(pointer)) {
    copy = allocate_exposed(size, alignment);
  } else if (size > largest_small) {
    copy = allocate_larger(before, size, alignment);
  } else {
    copy = je_mallocx(size, alignment <= 1 ? 0 : __builtin_ctzl(alignment));
  }
  if (copy == nullptr) return nullptr;
  copy_object(copy, pointer, before < size ? before : size);
  free_block(pointer);
  return copy;
}

}  // namespace

void die(const char* call, const void* pointer) {
  Message message;
  message.add("rdmalloc: ").add(call).add(" of ").add_address(pointer);
  message.add(": no live block starts there; it was freed before, or is not what malloc or ");
  message.add("rdm_alloc returned").send();
  abort();
}

void take_large_sizes() {
  const bool takes = heap.window().size() != 0 && !je_opt_prof;
  largest_small = takes ? LargeBlocks::kLargestSmall : SIZE_MAX;
}

bool is_large_once_started(size_t size) {
  start_heap();
  return heap.booted() && size > largest_small;
}

void leave_large_sizes_to_jemalloc() { largest_small = SIZE_MAX; }

void* allocate_exposed(size_t size, size_t alignment) {
  start_heap();
  const size_t bytes = whole_pages(size);
  return bytes == 0 ? nullptr : heap.blocks().allocate_exposed(bytes, alignment);
}

void copy_object(void* to, const void* from, size_t size) {
  if (!heap.holes().has(from, size)) [[likely]] {
    memcpy(to, from, size);
  } else {
    os::copy_readable(to, from, size);
  }
}

bool may_free_small(void* pointer) {
  const size_t size = je_malloc_usable_size(pointer);
  if (!heap.holes().has(pointer, size)) [[likely]]
    return true;
  const uintptr_t from = os::page_floor(reinterpret_cast<uintptr_t>(pointer));
  const uintptr_t to = os::page_ceil(reinterpret_cast<uintptr_t>(pointer) + size);
  heap.holes().reopen(from, to - from);
  return !heap.marks().is_retired(reinterpret_cast<uintptr_t>(pointer), size);
}

void free_block(void* pointer) {
  if (!heap.blocks().release(pointer)) [[unlikely]]
    die("free", pointer);
}

size_t usable_size_of_block(const void* pointer) { return size_of(pointer, "malloc_usable_size"); }

void* reallocate_block(void* pointer, size_t size, size_t alignment, bool zero) {
  const size_t before = size_of(pointer, "realloc");
  if (size > PTRDIFF_MAX) return nullptr;
  const bool is_aligned = (reinterpret_cast<uintptr_t>(pointer) & (alignment - 1)) == 0;
  const bool stays_block = size > largest_small || is_exposed(pointer);
  const bool stays = is_aligned && stays_block;
  if (stays && heap.blocks().resize(pointer, size)) {
    if (zero) zero_beyond(pointer, before, whole_pages(size));
    return pointer;
  }
  const bool may_move_pages = stays && alignment <= os::page_size();
  const bool moves_first = may_move_pages && heap.blocks().is_worth_moving(before);
  void* moved = moves_first ? heap.blocks().move(pointer, size) : nullptr;
  if (moved == nullptr) moved = copy_elsewhere(pointer, before, size, alignment);
  // There may be memory for what is missing where there is none for a second block.
  if (moved == nullptr && may_move_pages) moved = heap.blocks().move(pointer, size);
  if (moved != nullptr && zero) {
    zero_beyond(moved, before, stays_block ? whole_pages(size) : je_malloc_usable_size(moved));
  }
  return moved;
}

size_t resize_block(void* pointer, size_t size, size_t extra, bool zero) {
  const size_t before = size_of(pointer, "xallocx");
  const bool keeps_page = is_exposed(pointer);
  const auto became = [&](size_t bytes) {
    if (bytes > PTRDIFF_MAX || (bytes <= largest_small && !keeps_page)) return false;
    if (!heap.blocks().resize(pointer, bytes)) return false;
    if (zero) zero_beyond(pointer, before, whole_pages(bytes));
    return true;
  };
  const size_t most = size + extra < size ? size : size + extra;
  if (!became(most) && before < size) (void)became(size);
  return size_of(pointer, "xallocx");
}

}  // namespace rdmalloc::engine
