// One line for the user, put together in a fixed buffer and written at once to standard error.
// Works inside malloc: no stdio, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class Message {
 public:
  Message& add(const char* text);
  Message& add_number(uint64_t number);
  Message& add_address(const void* address);
  // "64 KiB": the largest unit that divides evenly enough to read; "unlimited" for UINT64_MAX.
  Message& add_size(uint64_t bytes);
  // Ends the line and writes it.
  void send();
  // Instead: the text for somebody else to say, cut to `size` bytes.
  void copy_to(char* out, size_t size) const;

 private:
  static constexpr size_t kLongest = 1536;
  char buffer_[kLongest] = {};
  size_t size_ = 0;
};

}  // namespace rdmalloc
