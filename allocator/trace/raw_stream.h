// Reads a thread's calls from a raw file, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/trace/raw_file.h"

namespace rdmalloc::trace {

struct RawCall {
  RawKind kind = RawKind::kNone;
  uint64_t stamp = 0;  // never less than that of the previous call
  uint64_t address = 0;
  uint64_t size = 0;
  uint8_t alignment_log2 = 0;
  bool refused = false;  // a kResizeEnd: the object is unchanged
};

// The file must outlive it.
class RawStream {
 public:
  RawStream(const RawFile& file, uint32_t thread, const std::vector<RawFile::Chunk>& chunks)
      : file_(file), chunks_(chunks), thread_(thread) {
    step();
  }

  uint32_t thread() const { return thread_; }

  bool at_end() const { return call_.kind == RawKind::kNone; }
  const RawCall& head() const { return call_; }
  void step();

  // Units so far that belong to no call.
  uint64_t damaged() const { return damaged_; }

 private:
  bool hold(size_t units);  // reads ahead this many; false at the end of a chunk
  uint64_t word() const;    // the next two units
  void take(RawKind kind, uint32_t unit);
  void decode(uint64_t event);
  bool begin_chunk();

  const RawFile& file_;
  const std::vector<RawFile::Chunk>& chunks_;
  uint32_t thread_;
  size_t chunk_ = 0;  // the next
  size_t next_ = 0;   // the first unit of the current chunk that is not read yet
  std::vector<uint32_t> held_;
  size_t at_ = 0;
  uint64_t stamp_ = 0;
  uint64_t address_ = 0;
  uint64_t damaged_ = 0;
  RawCall call_;
};

}  // namespace rdmalloc::trace
