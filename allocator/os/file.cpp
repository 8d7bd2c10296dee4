#include "allocator/os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include <atomic>

#include "allocator/os/confinement.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory_calls.h"
#include "allocator/os/system_call.h"

namespace rdmalloc::os {
namespace {

// Two buffers: while one file is read line by line, another's path may be under construction.
constinit std::atomic<char*> kept_buffers[2] = {};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool parse_hex(Text from, uint64_t* value, Text* rest) {
  uint64_t number = 0;
  size_t used = 0;
  for (; used < from.size && used < 16; ++used) {
    const char c = from.data[used];
    if (is_digit(c)) {
      number = number * 16 + static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      number = number * 16 + static_cast<uint64_t>(c - 'a' + 10);
    } else {
      break;
    }
  }
  *value = number;
  *rest = from.drop(used);
  return used > 0;
}

}  // namespace

ReadBuffer::ReadBuffer() {
  const KeepErrno keep;
  for (std::atomic<char*>& kept : kept_buffers) {
    data_ = kept.exchange(nullptr, std::memory_order_acquire);
    if (data_ != nullptr) return;
  }
  void* const got =
      mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  data_ = got == MAP_FAILED ? nullptr : static_cast<char*>(got);
}

ReadBuffer::~ReadBuffer() {
  if (data_ == nullptr) return;
  for (std::atomic<char*>& kept : kept_buffers) {
    char* nothing = nullptr;
    if (kept.compare_exchange_strong(nothing, data_, std::memory_order_release)) return;
  }
  munmap(data_, kSize);
}

int open_file(const char* path) {
  if (is_confined()) return -1;
  const long fd = system_call(SYS_openat, AT_FDCWD, word(path), O_RDONLY | O_CLOEXEC, 0);
  return fd < 0 ? -1 : static_cast<int>(fd);
}

ssize_t read_some(int fd, void* buffer, size_t capacity) {
  long got = -EINTR;
  while (got == -EINTR) got = system_call(SYS_read, fd, word(buffer), static_cast<long>(capacity));
  return got < 0 ? -1 : got;
}

void close_file(int fd) { (void)system_call(SYS_close, fd); }

ssize_t read_file(const char* path, char* buffer, size_t capacity) {
  const int fd = open_file(path);
  if (fd < 0) return -1;
  size_t held = 0;
  while (held < capacity) {
    const ssize_t got = read_some(fd, buffer + held, capacity - held);
    if (got <= 0) break;
    held += static_cast<size_t>(got);
  }
  close_file(fd);
  return static_cast<ssize_t>(held);
}

bool parse_decimal(Text from, uint64_t* value, Text* rest) {
  uint64_t number = 0;
  size_t used = 0;
  for (; used < from.size && is_digit(from.data[used]); ++used) {
    if (__builtin_mul_overflow(number, uint64_t{10}, &number)) return false;
    if (__builtin_add_overflow(number, static_cast<uint64_t>(from.data[used] - '0'), &number)) {
      return false;
    }
  }
  *value = number;
  *rest = from.drop(used);
  return used > 0;
}

bool read_number(const char* path, uint64_t* value) {
  char buffer[64];
  const ssize_t got = read_file(path, buffer, sizeof buffer);
  if (got <= 0) return false;
  const Text content{buffer, static_cast<size_t>(got)};
  if (content.starts_with(text("max"))) {
    *value = UINT64_MAX;
    return true;
  }
  Text rest;
  return parse_decimal(content, value, &rest);
}

bool parse_field(Text line, const char* name, uint64_t* value) {
  const Text wanted = text(name);
  if (!line.starts_with(wanted)) return false;
  line = line.drop(wanted.size);
  while (line.size > 0 && (line.data[0] == ' ' || line.data[0] == '\t')) line = line.drop(1);
  Text rest;
  return parse_decimal(line, value, &rest);
}

bool parse_range(Text line, uint64_t* low, uint64_t* high) {
  Text rest;
  if (!parse_hex(line, low, &rest) || rest.size == 0 || rest.data[0] != '-') return false;
  return parse_hex(rest.drop(1), high, &rest) && rest.size > 0 && rest.data[0] == ' ';
}

bool write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t put = syscall(SYS_write, fd, data, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    data += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

}  // namespace rdmalloc::os
