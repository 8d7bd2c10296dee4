// A file that is there whole or not at all: it is written beside its place and renamed, so that a
// writer that is killed, or has no room on the disk, leaves the older file intact. If the file is
// not a regular one (a terminal, a pipe, a link), or its folder may not be written to, it is
// written directly.
//
// Outside malloc. What a killed writer leaves has `process` in its name, and the next writer for
// that process overwrites it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class [[nodiscard]] WholeFile {
 public:
  static constexpr size_t kLongestPath = 4096;

  // The path is looked at again by keep().
  WholeFile(const char* path, uint64_t process);
  // Without keep(), leaves no trace, unless the file is written directly.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  int descriptor() const { return fd_; }  // to write to; -1: it could not be opened

  // Puts the file in its place. False: it is not there.
  bool keep();

 private:
  bool is_beside() const { return beside_[0] != '\0'; }

  const char* path_;
  char beside_[kLongestPath] = {};
  int fd_ = -1;
};

// Writes all of it. False: it is not there, and errno says why.
[[nodiscard]] bool write_whole_file(const char* path, uint64_t process, const char* data,
                                    size_t size);

}  // namespace rdmalloc
