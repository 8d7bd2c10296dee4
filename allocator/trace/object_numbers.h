#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "allocator/trace/event.h"

namespace rdmalloc::trace {

// The numbers of a trace's objects: which are taken, and the lowest free one. One thread at a time.
// In mapped memory, not malloc's, because a replay measures malloc.
class ObjectNumbers {
 public:
  static constexpr uint64_t kNone = UINT64_MAX;

  ObjectNumbers() = default;
  ~ObjectNumbers();
  ObjectNumbers(const ObjectNumbers&) = delete;
  ObjectNumbers& operator=(const ObjectNumbers&) = delete;

  // Begins with none taken. False: no memory.
  bool start();

  // Takes the lowest free number, or returns kNone.
  uint64_t take();
  bool is_taken(uint64_t number) const;
  // Frees a number that is taken.
  void give(uint64_t number);

 private:
  // A bit is set when everything below it is taken: a number in the lowest level, a word above it.
  static constexpr size_t kLevels = 5;
  static constexpr std::array<uint64_t, kLevels> kWords = {
      kMostObjects >> 6, kMostObjects >> 12, kMostObjects >> 18, kMostObjects >> 24, 1};
  static constexpr uint64_t kAllWords = kWords[0] + kWords[1] + kWords[2] + kWords[3] + kWords[4];
  static_assert(kWords[kLevels - 2] <= 64);

  uint64_t find_word();

  uint64_t* words_ = nullptr;
  // No word before this one has a free number; nearly always this word has one.
  uint64_t first_ = 0;
  std::array<uint64_t*, kLevels> level_{};
};

}  // namespace rdmalloc::trace
