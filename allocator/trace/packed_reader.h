#pragma once

#include <zstd.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "allocator/trace/event.h"
#include "allocator/trace/object_numbers.h"
#include "allocator/trace/packed_format.h"

namespace rdmalloc::trace {

// Reads a packed trace, and trusts nothing in it: what it delivers is a trace that can be replayed,
// whose objects are live when they are resized and freed. Neither mallocs nor throws, so that a
// replay can read while it measures malloc. Maps a few MiB of memory, whatever the file says. One
// thread at a time.
class PackedReader {
 public:
  PackedReader() = default;
  ~PackedReader();
  PackedReader(const PackedReader&) = delete;
  PackedReader& operator=(const PackedReader&) = delete;

  // Call once. False: error() says why not.
  bool open(const char* path);

  const Counts& counts() const { return header_.counts; }
  const char* program() const { return program_; }

  // False: the end, or the end of what can be read; see truncated() and error().
  bool next(Event* out);
  uint64_t events_read() const { return events_read_; }

  // The file ended before its header says. Known once next() has returned false.
  bool truncated() const { return truncated_; }
  // A message with the file's name, or null if nothing is wrong. Truncation is not an error.
  const char* error() const { return error_[0] != 0 ? error_ : nullptr; }

  // Returns to the first event. False: error() says why not.
  bool rewind();

 private:
  struct Bytes {
    const uint8_t* next = nullptr;
    const uint8_t* end = nullptr;
  };

  [[gnu::format(printf, 2, 3)]] bool fail(const char* format, ...);
  bool fail_at_event(const char* what);
  bool map_buffers();
  bool check_header();
  bool read_all(void* into, size_t size, size_t* got);
  bool next_block();
  bool end_of_file();
  bool check_block(const BlockHeader& block);
  bool unpack(const BlockHeader& block);
  bool split_columns(const BlockHeader& block);
  bool take_varint(Column column, uint64_t* value);
  bool take_thread(uint8_t head, Event* out);
  bool take_time(uint8_t head, Event* out);
  bool take_object(Event* out);
  bool take_size(uint8_t head, Event* out);

  const char* path_ = "";
  int fd_ = -1;
  FileHeader header_;
  char program_[kMostProgramSize + 1] = "";
  uint8_t* buffers_ = nullptr;
  uint8_t* packed_ = nullptr;
  uint8_t* raw_ = nullptr;
  ZSTD_DCtx* zstd_ = nullptr;

  ObjectNumbers numbers_;
  std::array<Bytes, kColumns> columns_{};
  uint64_t events_read_ = 0;
  uint64_t time_ = 0;
  uint64_t object_ = 0;
  uint32_t thread_ = 0;
  uint32_t threads_seen_ = 0;
  bool truncated_ = false;
  char error_[512] = "";
};

}  // namespace rdmalloc::trace
