// One line for the user, composed in a fixed buffer and written to standard error in one call.
// Works inside malloc: no stdio, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

// A program may have little stack left there, so the text lies in one of a few buffers that all
// threads share. If all are taken, the message uses its own short buffer, and the text is cut.
class Message {
 public:
  Message();
  ~Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  Message& add(const char* text);
  Message& add_number(uint64_t number);
  Message& add_address(const void* address);
  // "64 KiB": the largest unit that divides evenly enough to read; "unlimited" for UINT64_MAX.
  Message& add_size(uint64_t bytes);
  void clear() { size_ = 0; }
  // Ends the line and writes it.
  void send();
  // Copies the text instead, cut to `size` bytes, for another place to print.
  void copy_to(char* out, size_t size) const;

 private:
  char own_[128];
  char* buffer_ = own_;
  size_t room_ = sizeof own_;
  size_t size_ = 0;
};

}  // namespace rdmalloc
