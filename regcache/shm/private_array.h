#pragma once

#include <stddef.h>
#include <stdlib.h>

#include <new>

namespace rdmalloc::shm {

// An array of this process alone, on cache lines of its own: made once, freed with its owner.
template <typename T>
class PrivateArray {
 public:
  PrivateArray() = default;
  ~PrivateArray() { free(items_); }
  PrivateArray(const PrivateArray&) = delete;
  PrivateArray& operator=(const PrivateArray&) = delete;

  // False: no memory.
  bool make(size_t count) {
    constexpr size_t kLine = 64;
    items_ = static_cast<T*>(aligned_alloc(kLine, (count * sizeof(T) / kLine + 1) * kLine));
    for (size_t i = 0; items_ != nullptr && i < count; ++i) new (&items_[i]) T();
    return items_ != nullptr;
  }
  T& operator[](size_t i) const { return items_[i]; }
  T* begin() const { return items_; }

 private:
  T* items_ = nullptr;
};

}  // namespace rdmalloc::shm
