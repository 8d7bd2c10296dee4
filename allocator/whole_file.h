// A file that is there whole or not at all: written beside its place and renamed, so that who is
// killed meanwhile, or has no room on the disk, leaves what was there before. What is no regular
// file (a terminal, a pipe, a link), or lies in a folder that may not be written to, is written as
// it stands.
//
// Outside malloc. The leftover of a writer that was killed has a name by `process`, and is
// overwritten by the next writer for that process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class [[nodiscard]] WholeFile {
 public:
  static constexpr size_t kLongestPath = 4096;

  // The path is looked at again by keep().
  WholeFile(const char* path, uint64_t process);
  // Without keep(): nothing happened, where that can be helped.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  int descriptor() const { return fd_; }  // to write to; -1: that cannot be had

  // Puts it in its place. False: it is not there.
  bool keep();

 private:
  bool is_beside() const { return beside_[0] != '\0'; }

  const char* path_;
  char beside_[kLongestPath] = {};
  int fd_ = -1;
};

}  // namespace rdmalloc
