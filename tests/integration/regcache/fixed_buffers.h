// One io_uring with a table of fixed buffers: the device of these tests. A registered buffer is a
// long-term pin, like an RDMA memory region: a write through it goes to the pages present at
// registration, whatever the address means by then.
#pragma once

#include <liburing.h>
#include <sys/mman.h>

#include <mutex>

#include "tests/integration/probe.h"

namespace probe {

class FixedBuffers {
 public:
  FixedBuffers() {
    if (io_uring_queue_init(8, &ring_, 0) != 0) skip("no io_uring here");
    if (io_uring_register_buffers_sparse(&ring_, kMost) != 0) {
      skip("io_uring has no sparse table of fixed buffers here (Linux 5.19)");
    }
    file_ = memfd_create("device", MFD_CLOEXEC);
  }

  // The index of the new buffer; -1 if the table is full or the kernel's limit is reached.
  int add(void* base, size_t length) {
    const std::lock_guard hold(mutex_);
    if (used_ == kMost) return -1;
    iovec buffer{base, length};
    __u64 tag = 0;
    if (io_uring_register_buffers_update_tag(&ring_, used_, &buffer, &tag, 1) < 0) return -1;
    return static_cast<int>(used_++);
  }

  // What the device reads: `length` bytes at `address`, which lies in buffer `index`. False if the
  // device refused.
  bool read_through(int index, const void* address, size_t length, void* out) {
    const std::lock_guard hold(mutex_);
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_write_fixed(entry, file_, address, static_cast<unsigned>(length), 0, index);
    io_uring_submit(&ring_);
    io_uring_cqe* done = nullptr;
    if (io_uring_wait_cqe(&ring_, &done) != 0) return false;
    const int result = done->res;
    io_uring_cqe_seen(&ring_, done);
    return result == static_cast<int>(length) &&
           pread(file_, out, length, 0) == static_cast<ssize_t>(length);
  }

 private:
  static constexpr unsigned kMost = 16384;  // the kernel's own limit
  std::mutex mutex_;
  io_uring ring_ = {};
  unsigned used_ = 0;
  int file_ = -1;
};

}  // namespace probe
