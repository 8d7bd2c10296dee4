#pragma once

#include <stddef.h>
#include <stdint.h>

namespace rdmalloc::shm {

// A file in /dev/shm with one segment in it: its name, its space, its mapping, and a lock on one
// byte for each rank, by which the kernel tells who lives, across PID namespaces, and lets go of
// when a process dies however. Functions return RDM_* and leave a sentence; not thread-safe.
//
// A named file rather than a memfd: ranks find it by nothing but the name they agreed on, and the
// size of /dev/shm bounds it, so that too much is a status instead of the out-of-memory killer.
class SharedFile {
 public:
  SharedFile() = default;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  // Closes and unmaps; the name stays.
  ~SharedFile();

  // RDM_INVALID unless it is one file name.
  static int check_name(const char* name);

  // A new file of `bytes`, without a name, the first `allocated` of them backed by memory, mapped.
  // RDM_OUT_OF_BUDGET.
  int make(uint64_t bytes, uint64_t allocated);
  // Gives it its name, at once as a whole: whoever finds it finds it complete. RDM_BUSY: taken.
  int publish(const char* name);

  // Opens a file of that name, of this user and of at least `least` bytes. RDM_AGAIN: none is
  // there.
  int open(const char* name, uint64_t least);
  // The first `bytes` of it; once.
  int map(uint64_t bytes);

  // Memory for part of the file, so that no later access runs out of it. RDM_OUT_OF_BUDGET.
  int allocate(uint64_t offset, uint64_t bytes);

  // Reads without the mapping: where there is no page yet, it finds zeros and leaves none behind.
  bool read(uint64_t offset, void* to, size_t bytes) const;

  // Removes the name if it is still this file's, or waits until whoever is just doing so has. Any
  // number of processes may.
  void remove_name(const char* name) const;

  // The lock of a rank; it lasts until the file is closed. RDM_BUSY: another process has it.
  // A process's lock (POSIX) and not an open file's: a child of fork would keep that one, and with
  // it the rank alive, after the rank's death.
  int lock(unsigned rank) const;
  // True: some other process has it.
  bool is_locked(unsigned rank) const;

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }

 private:
  int descriptor_ = -1;
  unsigned char* base_ = nullptr;
  uint64_t mapped_ = 0;
  uint64_t bytes_ = 0;  // of the file
};

}  // namespace rdmalloc::shm
