#include "allocator/trace/object_numbers.h"

#include <algorithm>
#include <bit>

#include "allocator/trace/own_memory.h"

namespace rdmalloc::trace {

ObjectNumbers::~ObjectNumbers() {
  if (words_ != nullptr) unmap_own(words_, kAllWords * sizeof *words_);
}

bool ObjectNumbers::start() {
  if (words_ != nullptr) unmap_own(words_, kAllWords * sizeof *words_);
  words_ = static_cast<uint64_t*>(map_own(kAllWords * sizeof *words_));
  if (words_ == nullptr) return false;
  first_ = 0;
  uint64_t* next = words_;
  for (size_t i = 0; i < kLevels; ++i) {
    level_[i] = next;
    next += kWords[i];
  }
  return true;
}

// The first word that has a free number, or kNone.
uint64_t ObjectNumbers::find_word() {
  uint64_t place = 0;
  for (size_t i = kLevels; i-- > 1;) {
    const auto free = static_cast<uint64_t>(std::countr_one(level_[i][place]));
    // The top word has bits for words that do not exist.
    if (free == 64 || (i == kLevels - 1 && free >= kWords[i - 1])) return kNone;
    place = place << 6 | free;
  }
  return place;
}

uint64_t ObjectNumbers::take() {
  if (level_[0][first_] == UINT64_MAX) {
    const uint64_t word = find_word();
    if (word == kNone) return kNone;
    first_ = word;
  }
  const uint64_t number = first_ << 6 | static_cast<uint64_t>(std::countr_one(level_[0][first_]));
  uint64_t place = number;
  for (size_t i = 0; i < kLevels; ++i) {
    uint64_t& word = level_[i][place >> 6];
    word |= uint64_t{1} << (place & 63);
    if (word != UINT64_MAX) break;
    place >>= 6;
  }
  return number;
}

bool ObjectNumbers::is_taken(uint64_t number) const {
  return number < kMostObjects && (level_[0][number >> 6] >> (number & 63) & 1) != 0;
}

void ObjectNumbers::give(uint64_t number) {
  first_ = std::min(first_, number >> 6);
  uint64_t place = number;
  for (size_t i = 0; i < kLevels; ++i) {
    uint64_t& word = level_[i][place >> 6];
    const bool was_full = word == UINT64_MAX;
    word &= ~(uint64_t{1} << (place & 63));
    if (!was_full) break;
    place >>= 6;
  }
}

}  // namespace rdmalloc::trace
