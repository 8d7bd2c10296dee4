// Registers memory with io_uring, as fixed buffers: rdm_domain_open_io_uring. A key is the index of
// the buffer in the ring's table. See rdmalloc.h for the two kinds of ring.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"
#include "regcache/backends/io_uring/ring.h"

namespace rdmalloc {

// The slots of a table that are free. Any thread, inside malloc: no lock.
class IoUringSlots {
 public:
  static constexpr unsigned kMost = 16384;  // the kernel's limit of a table

  void set_count(unsigned count) { count_ = count; }
  unsigned count() const { return count_; }
  // -1: none is free.
  int take();
  void put_back(unsigned slot);

 private:
  static constexpr unsigned kBits = 64;
  unsigned count_ = 0;
  std::atomic<uint64_t> taken_[kMost / kBits] = {};
};

// The context of one domain. Set up and closed by one thread; register_memory() and
// deregister_memory() by any, the first inside malloc too. In a child of fork it may only be
// destroyed.
class IoUringBackend {
 public:
  // The operations, with an IoUringBackend made by create() as their context.
  static const rdm_backend kOperations;

  // `ring_fd`: the caller's ring, or -1. `slots`: how many slots of its table are ours, from
  // `first_slot` on; 0: we register the table. Returns RDM_OK and sets *out, or returns an error
  // status with a sentence.
  static int create(int ring_fd, unsigned first_slot, unsigned slots, IoUringBackend** out,
                    char* why, size_t why_size);
  // `forked`: in a child, where the ring is the parent's.
  static void destroy(IoUringBackend* backend, bool forked);

  // From now on registering does not wait for memory. Until then the thread that called create()
  // waits for a moment, because the kernel gives back what another process of the same user had
  // pinned only some time after that process has ended.
  void end_opening() { opening_.store(false, std::memory_order_relaxed); }

  void limits(rdm_backend_limits* out) const;
  int register_memory(const rdm_backend_request& request, rdm_backend_key* out, char* why,
                      size_t why_size);
  int deregister_memory(const rdm_backend_key& key);

 private:
  IoUringBackend() = default;
  int open(int ring_fd, unsigned first_slot, unsigned slots, char* why, size_t why_size);
  int open_own(char* why, size_t why_size);
  int register_table(char* why, size_t why_size);
  int check_slots(char* why, size_t why_size);
  void try_unpinning();
  int update(unsigned slot, void* base, size_t length);
  bool wait_for_memory();

  IoUringRing ring_;
  IoUringSlots slots_;
  unsigned first_slot_ = 0;
  bool owns_table_ = false;
  bool unpins_late_ = false;
  std::atomic<bool> opening_{true};
  pthread_t opener_ = pthread_self();
  uint64_t waited_ns_ = 0;  // by the opener
};

// The step that was tried.
enum class IoUringStep { kSetup, kTable, kSlots, kBuffer };

// Explains why it failed, by cause, and what to do. May be called inside malloc. `error`: an errno;
// `length`: of the buffer. Returns the status for the caller.
int explain_io_uring_failure(IoUringStep step, int error, size_t length, char* why,
                             size_t why_size);

}  // namespace rdmalloc
