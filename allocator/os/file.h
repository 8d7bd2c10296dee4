// Reads small files and writes reports without malloc or stdio: /proc, cgroupfs, the environment.
//
// Makes system calls by number, because libc's open, read, write and close are cancellation points:
// a thread that is cancelled inside malloc would leave with malloc's locks held. What reads leaves
// errno alone.
#pragma once

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc::os {

// A run of characters that somebody else owns. std::string_view would do, but parts of it throw,
// and a preloaded library must not need libstdc++.
struct Text {
  const char* data = nullptr;
  size_t size = 0;

  bool operator==(Text other) const {
    return size == other.size && memcmp(data, other.data, size) == 0;
  }
  bool starts_with(Text prefix) const {
    return size >= prefix.size && memcmp(data, prefix.data, prefix.size) == 0;
  }
  Text drop(size_t count) const { return {data + count, size - count}; }
};

inline Text text(const char* c_string) { return {c_string, strlen(c_string)}; }

// Opens for reading; -1 when that fails, and always while the process is confined (confinement.h).
int open_file(const char* path);
// What one read brings, whatever signals come meanwhile; -1 when it fails.
ssize_t read_some(int fd, void* buffer, size_t capacity);
void close_file(int fd);

// Reads at most `capacity` bytes from the start of a file. Returns the count, or -1.
ssize_t read_file(const char* path, char* buffer, size_t capacity);

// The number in a file such as memory.max; "max" reads as UINT64_MAX. False when absent.
bool read_number(const char* path, uint64_t* value);

// A number's decimal digits, stored in this object.
class Decimal {
 public:
  explicit Decimal(uint64_t number) {
    do {
      *--first_ = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
  }
  Decimal(const Decimal&) = delete;
  Decimal& operator=(const Decimal&) = delete;

  const char* c_string() const { return first_; }

 private:
  char digits_[21] = {};  // for 2^64 - 1, and the terminator
  char* first_ = digits_ + sizeof digits_ - 1;
};

// Decimal digits at the start of `from`; false when there are none or they overflow.
bool parse_decimal(Text from, uint64_t* value, Text* rest);

// "  Name:   123 kB" with the given name: the number.
bool parse_field(Text line, const char* name, uint64_t* value);

// "7f00-7f10 rw-p ..." as in /proc/self/maps.
bool parse_range(Text line, uint64_t* low, uint64_t* high);

// Writes everything, despite short writes and EINTR. False on an error.
bool write_all(int fd, const char* data, size_t size);

// A page to read into that is not on the stack, because malloc is called on stacks of a few KiB, as
// fibers have. Lives as long as this object. data() is null if there is no memory for it.
class ReadBuffer {
 public:
  static constexpr size_t kSize = 4096;
  ReadBuffer();
  ~ReadBuffer();
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
};

// Calls visit(Text line) -> bool for each line, until it returns false. Visits only the beginning
// of a line that is longer than the buffer. False when the file cannot be opened.
template <typename Visit>
bool for_each_line(const char* path, Visit visit) {
  const ReadBuffer memory;
  char* const buffer = memory.data();
  const int fd = buffer == nullptr ? -1 : open_file(path);
  if (fd < 0) return false;
  constexpr size_t kRoom = ReadBuffer::kSize;
  size_t held = 0;
  bool more = true;
  bool skipping = false;  // the rest of a line whose beginning was visited
  while (more) {
    const ssize_t got = read_some(fd, buffer + held, kRoom - held);
    if (got <= 0) break;
    held += static_cast<size_t>(got);
    size_t start = 0;
    while (more) {
      const void* end = memchr(buffer + start, '\n', held - start);
      if (end == nullptr) break;
      const auto length = static_cast<size_t>(static_cast<const char*>(end) - (buffer + start));
      if (!skipping) more = visit(Text{buffer + start, length});
      skipping = false;
      start += length + 1;
    }
    if (more && start == 0 && held == kRoom) {
      if (!skipping) more = visit(Text{buffer, held});
      skipping = true;
      start = held;
    }
    held -= start;
    memmove(buffer, buffer + start, held);
  }
  if (more && held > 0 && !skipping) (void)visit(Text{buffer, held});
  close_file(fd);
  return true;
}

}  // namespace rdmalloc::os
