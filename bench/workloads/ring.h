// The device of these benchmarks: an io_uring that writes from registered buffers. Registration
// means the same to it as to a network card: pinned pages and a key.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc::bench {

// For one thread. Every failure prints a message and ends the program.
class Ring {
 public:
  Ring();
  ~Ring() { io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  int fd() const { return ring_.ring_fd; }

  // Creates an empty table of `keys` keys. Not for a ring that one of rdmalloc's domains registers
  // with.
  void make_table(unsigned keys);
  // Registers memory under this key, replacing what was there.
  void add(uint32_t key, void* base, size_t length);
  void remove(uint32_t key) { add(key, nullptr, 0); }
  // Calls of add(), not counting those by remove().
  size_t registrations() const { return registrations_; }

  // Writes the memory, which must be registered under this key, to the start of the file, and
  // waits.
  void send(int file, const void* memory, size_t length, uint32_t key);

  // Starts writing memory to the file, or reading it from there, and returns at once: a kernel
  // thread does the transfer. At most kDepth at a time.
  static constexpr unsigned kDepth = 8;
  enum class Direction { kToFile, kFromFile };
  struct Transfer {
    Direction direction;
    int file;
    size_t offset;  // within the file
    void* memory;
    size_t length;
    uint32_t key;
  };
  // `id`: below kDepth, and not that of a transfer in progress.
  void start(const Transfer& transfer, uint64_t id);
  // Waits until a transfer has completed in full; returns its id.
  uint64_t finish();

 private:
  // The result and the id of a completed transfer.
  int wait(uint64_t* id);

  io_uring ring_ = {};
  size_t registrations_ = 0;
  size_t lengths_[kDepth] = {};  // of the transfers in progress
};

}  // namespace rdmalloc::bench
