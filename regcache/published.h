// A value that is found once for all threads, such as a library's functions.
//
// No lock: finding it calls dlopen(), which takes the dynamic linker's lock, and a library's
// constructor, which runs under that lock, may be the next to ask.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <new>

namespace rdmalloc {

template <typename Value>
class Published {
 public:
  constexpr Published() = default;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  // Returns the value. While there is none, calls `find` to fill one in, and returns null if that
  // returns false. Threads that find at the same time use what the first of them published. Any
  // thread, not inside malloc.
  template <typename Find>
  const Value* get(Find find) {
    const Value* value = published_.load(std::memory_order_acquire);
    return value != nullptr ? value : publish(find);
  }

 private:
  template <typename Find>
  const Value* publish(Find find) {
    void* memory = calloc(1, sizeof(Value));
    if (memory == nullptr) return nullptr;
    const Value* first = nullptr;
    auto* found = new (memory) Value;
    if (find(found) && published_.compare_exchange_strong(first, found)) return found;
    free(memory);
    return first;
  }

  std::atomic<const Value*> published_{nullptr};
};

}  // namespace rdmalloc
