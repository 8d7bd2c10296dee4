#pragma once

#include <stddef.h>
#include <stdint.h>

namespace rdmalloc::shm {

// A file in /dev/shm that holds one segment: its name, its space, its mapping, and a lock on one
// byte per rank. The lock tells which ranks live, across PID namespaces; the kernel releases it
// however a process dies. Functions return RDM_* and leave a message; not thread-safe.
//
// A named file instead of a memfd: ranks find it by nothing but the name they agreed on, and the
// size of /dev/shm bounds it, so that asking for too much returns a status instead of waking the
// out-of-memory killer.
class SharedFile {
 public:
  SharedFile() = default;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  // Closes and unmaps; the name stays.
  ~SharedFile();

  // RDM_INVALID unless it is a single file name.
  static int check_name(const char* name);

  // Creates and maps a file of `bytes`, without a name, the first `allocated` of them backed by
  // memory. RDM_OUT_OF_BUDGET.
  int make(uint64_t bytes, uint64_t allocated);
  // Gives the file its name atomically: a process that finds it finds it complete. RDM_BUSY: the
  // name is taken.
  int publish(const char* name);

  // Opens the file of that name if it is this user's and has at least `least` bytes. RDM_AGAIN:
  // there is none.
  int open(const char* name, uint64_t least);
  // Maps the first `bytes` of it; call once.
  int map(uint64_t bytes);

  // Allocates memory for part of the file, so that later accesses cannot run out of it.
  // RDM_OUT_OF_BUDGET.
  int allocate(uint64_t offset, uint64_t bytes);

  // Reads without the mapping: where no page exists yet, this finds zeros and creates none.
  bool read(uint64_t offset, void* to, size_t bytes) const;

  // Removes the name if it still belongs to this file, or waits until another process has done so.
  // Any number of processes may call this.
  void remove_name(const char* name) const;

  // Takes the lock of a rank, held until the file is closed. RDM_BUSY: another process has it. A
  // process lock (POSIX), not an open-file lock: a child of fork would keep the latter, and with it
  // the rank, alive after the rank's death.
  int lock(unsigned rank) const;
  // True: another process holds it.
  bool is_locked(unsigned rank) const;

  unsigned char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }

 private:
  int descriptor_ = -1;
  unsigned char* base_ = nullptr;
  uint64_t mapped_ = 0;
  uint64_t bytes_ = 0;  // the file's size
};

}  // namespace rdmalloc::shm
