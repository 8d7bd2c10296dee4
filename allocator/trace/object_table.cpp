#include "allocator/trace/object_table.h"

#include <algorithm>

#include "allocator/trace/own_memory.h"

namespace rdmalloc::trace {
namespace {

constexpr uint64_t kFirstCapacity = 1024;

}  // namespace

ObjectTable::~ObjectTable() { clear(); }

bool ObjectTable::reach(uint64_t number) {
  if (number < capacity_) return true;
  return grow(std::max({kFirstCapacity, capacity_ * 2, number + 1}));
}

bool ObjectTable::grow(uint64_t capacity) {
  const size_t size = os::page_ceil(capacity * sizeof(Object));
  void* grown = objects_ == nullptr ? map_own(size) : grow_own(objects_, bytes(), size);
  if (grown == nullptr) return false;
  objects_ = static_cast<Object*>(grown);
  capacity_ = size / sizeof(Object);
  return true;
}

void ObjectTable::clear() {
  if (objects_ != nullptr) unmap_own(objects_, bytes());
  objects_ = nullptr;
  capacity_ = 0;
}

}  // namespace rdmalloc::trace
