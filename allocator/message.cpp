#include "allocator/message.h"

#include <string.h>

#include <atomic>

#include "allocator/os/file.h"
#include "allocator/os/standard_error.h"

namespace rdmalloc {
namespace {

struct Buffer {
  std::atomic<bool> is_taken;
  char text[1536];
};
Buffer buffers[4];

}  // namespace

Message::Message() {
  for (Buffer& buffer : buffers) {
    if (buffer.is_taken.exchange(true, std::memory_order_acquire)) continue;
    buffer_ = buffer.text;
    room_ = sizeof buffer.text;
    return;
  }
}

Message::~Message() {
  for (Buffer& buffer : buffers) {
    if (buffer_ == buffer.text) buffer.is_taken.store(false, std::memory_order_release);
  }
}

Message& Message::add(const char* text) {
  while (*text != '\0' && size_ < room_ - 1) buffer_[size_++] = *text++;
  return *this;
}

Message& Message::add_number(uint64_t number) { return add(os::Decimal(number).c_string()); }

Message& Message::add_address(const void* address) {
  auto left = reinterpret_cast<uintptr_t>(address);
  char digits[2 * sizeof left + 1];
  char* first = digits + sizeof digits - 1;
  *first = '\0';
  do {
    *--first = "0123456789abcdef"[left % 16];
    left /= 16;
  } while (left != 0);
  return add("0x").add(first);
}

Message& Message::add_size(uint64_t bytes) {
  if (bytes == UINT64_MAX) return add("unlimited");
  static constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  size_t unit = 0;
  while (unit < 4 && bytes >= 1024 && (bytes % 1024 == 0 || bytes >= uint64_t{10} << 10)) {
    bytes /= 1024;
    ++unit;
  }
  return add_number(bytes).add(kUnits[unit]);
}

void Message::copy_to(char* out, size_t size) const {
  if (size == 0) return;
  const size_t length = size_ < size - 1 ? size_ : size - 1;
  memcpy(out, buffer_, length);
  out[length] = '\0';
}

void Message::send() {
  buffer_[size_++] = '\n';
  os::write_standard_error(buffer_, size_);
}

}  // namespace rdmalloc
