// A small file that processes of one user share, open and locked while this object lives. It is
// read and written by system calls, never mapped: if others damage it, or even truncate it, the
// worst result is a failed read. The kernel releases the lock of a process that dies. Works inside
// malloc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::os {

class [[nodiscard]] LockedFile {
 public:
  enum class State : uint8_t {
    kLocked,
    kBusy,     // another process held the lock for all of the patience
    kForeign,  // not this user's own regular file, or others may write to it
    kFailed    // error() says why
  };

  // Creates the file if it is missing: empty, and accessible to its user only.
  LockedFile(const char* path, uint64_t patience_ns);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  State state() const { return state_; }
  int error() const { return error_; }     // an errno
  uint64_t size() const { return size_; }  // bytes, when it was opened

  // Reads all of it, or returns false.
  bool read(uint64_t offset, void* buffer, size_t size) const;
  bool write(uint64_t offset, const void* data, size_t size) const;

 private:
  State lock(uint64_t patience_ns);

  int fd_ = -1;
  State state_ = State::kFailed;
  int error_ = 0;
  uint64_t size_ = 0;
};

}  // namespace rdmalloc::os
