#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::trace {

// What a replay knows of a trace's objects. Grows with the highest object number, in mapped memory,
// because a replay measures malloc. One thread at a time.
class ObjectTable {
 public:
  struct Object {
    void* block = nullptr;
    uint64_t size = 0;
    uint64_t seed = 0;  // of the pattern in it
  };

  ObjectTable() = default;
  ~ObjectTable();
  ObjectTable(const ObjectTable&) = delete;
  ObjectTable& operator=(const ObjectTable&) = delete;

  // Makes room for the object of this number; new entries are zero. False: no memory.
  bool reach(uint64_t number);

  // An object within reach. Valid until the next reach().
  Object& operator[](uint64_t number) { return objects_[number]; }
  uint64_t size() const { return capacity_; }

  // Sets all entries to zero, as at the beginning.
  void clear();

 private:
  bool grow(uint64_t capacity);
  size_t bytes() const { return capacity_ * sizeof(Object); }

  Object* objects_ = nullptr;
  uint64_t capacity_ = 0;
};

}  // namespace rdmalloc::trace
