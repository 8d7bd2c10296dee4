// Reads a raw file (raw_format.h) in a process of its own, perhaps while the recorded one still
// writes, or after it died in any way. Nothing in the file is trusted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "allocator/trace/raw_format.h"

namespace rdmalloc::trace {

class RawFile {
 public:
  // Throws std::runtime_error with a sentence that names the file.
  explicit RawFile(const std::string& path);
  ~RawFile();
  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&& other) noexcept;

  const RawHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  std::string name() const;     // of the program's file, without its folder
  std::string program() const;  // its name and arguments, quoted for a shell

  struct Chunk {
    uint64_t offset = 0;  // of its first unit
    uint32_t units = 0;
    uint64_t stamp = 0;
  };
  // A thread's chunks in the order in which they were written.
  const std::map<uint32_t, std::vector<Chunk>>& threads() const { return threads_; }

  uint64_t units() const;                    // how many were written, almost exactly
  uint64_t bytes() const { return bytes_; }  // how much of the file is used

  // Reads units of a chunk; fewer than `count` where the chunk or the file ends.
  size_t read(const Chunk& chunk, size_t first, uint32_t* into, size_t count) const;

 private:
  void read_header();
  void find_chunks();

  std::string path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  RawHeader header_{};
  std::map<uint32_t, std::vector<Chunk>> threads_;
};

}  // namespace rdmalloc::trace
