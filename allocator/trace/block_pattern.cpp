#include "allocator/trace/block_pattern.h"

#include <string.h>

#include <algorithm>

#include "allocator/os/memory.h"

namespace rdmalloc::trace {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

// Neighbouring words, and the same word of other seeds, differ in most bits.
uint64_t word_of(uint64_t seed, uint64_t index) {
  const uint64_t word = (seed * 0xbf58476d1ce4e5b9 + index) * 0x9e3779b97f4a7c15;
  return word ^ word >> 32;
}

// Calls visit(Byte* bytes, const char* pattern, size) for each part of the block that lies in one
// word of the pattern, until it returns false. Nearly all words are whole; their loop has a size
// that the compiler knows.
template <typename Byte, typename Visit>
bool for_each_word(Byte* block, uint64_t from, uint64_t size, uint64_t seed, Visit visit) {
  const auto visit_part = [&](uint64_t at, uint64_t count) {
    const uint64_t word = word_of(seed, at / kWord);
    return visit(block + at, reinterpret_cast<const char*>(&word) + at % kWord, count);
  };
  uint64_t at = from;
  if (at % kWord != 0 && at < size) {
    const uint64_t count = std::min(kWord - at % kWord, size - at);
    if (!visit_part(at, count)) return false;
    at += count;
  }
  for (; at + kWord <= size; at += kWord) {
    if (!visit_part(at, kWord)) return false;
  }
  return at >= size || visit_part(at, size - at);
}

}  // namespace

void touch_pages(void* block, uint64_t from, uint64_t size) {
  auto* bytes = static_cast<volatile char*>(block);
  uint64_t at = from;
  while (at < size) {
    bytes[at] = 1;
    const uint64_t in_page = (reinterpret_cast<uintptr_t>(block) + at) % os::page_size();
    at += os::page_size() - in_page;
  }
}

void write_pattern(void* block, uint64_t from, uint64_t size, uint64_t seed) {
  for_each_word(static_cast<char*>(block), from, size, seed,
                [](char* bytes, const char* pattern, size_t count) {
                  memcpy(bytes, pattern, count);
                  return true;
                });
}

bool has_pattern(const void* block, uint64_t size, uint64_t seed) {
  return for_each_word(static_cast<const char*>(block), 0, size, seed,
                       [](const char* bytes, const char* pattern, size_t count) {
                         return memcmp(bytes, pattern, count) == 0;
                       });
}

bool is_zero(const void* block, uint64_t size) {
  const auto* bytes = static_cast<const char*>(block);
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

}  // namespace rdmalloc::trace
