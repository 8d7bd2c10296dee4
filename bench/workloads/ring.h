// The device of these benchmarks: an io_uring that writes from registered buffers, to which a
// registration is what it is to a network card: pages pinned, and a key.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc::bench {

// For one thread. Every failure ends the program with a sentence.
class Ring {
 public:
  Ring();
  ~Ring() { io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  int fd() const { return ring_.ring_fd; }

  // An empty table of so many keys. Not for a ring that a domain of rdmalloc's registers with.
  void make_table(unsigned keys);
  // Registers memory under this key, in place of what was there.
  void add(uint32_t key, void* base, size_t length);
  void remove(uint32_t key) { add(key, nullptr, 0); }
  // Calls of add(), without those of remove().
  size_t registrations() const { return registrations_; }

  // Writes the memory, which must be registered under this key, to the file's start, and waits.
  void send(int file, const void* memory, size_t length, uint32_t key);

  // Starts writing memory to the file, or reading it from there, and returns at once: a thread of
  // the kernel's does it. At most kDepth at a time.
  static constexpr unsigned kDepth = 8;
  enum class Direction { kToFile, kFromFile };
  struct Transfer {
    Direction direction;
    int file;
    size_t offset;  // in the file
    void* memory;
    size_t length;
    uint32_t key;
  };
  // `id`: below kDepth, none that is under way.
  void start(const Transfer& transfer, uint64_t id);
  // Waits until one has ended, all of it; its id.
  uint64_t finish();

 private:
  // The result, and the id, of what has ended.
  int wait(uint64_t* id);

  io_uring ring_ = {};
  size_t registrations_ = 0;
  size_t lengths_[kDepth] = {};  // of the transfers under way
};

}  // namespace rdmalloc::bench
