#include "bench/workloads/ring.h"

#include <string.h>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr unsigned kDepth = 8;

}  // namespace

Ring::Ring() {
  const int status = io_uring_queue_init(kDepth, &ring_, 0);
  if (status != 0) fail("io_uring_queue_init", strerror(-status));
}

void Ring::make_table(unsigned keys) {
  const int status = io_uring_register_buffers_sparse(&ring_, keys);
  if (status != 0) fail("a table of registered buffers (Linux 5.19)", strerror(-status));
}

void Ring::add(uint32_t key, void* base, size_t length) {
  iovec buffer{base, length};
  __u64 tag = 0;
  const int status = io_uring_register_buffers_update_tag(&ring_, key, &buffer, &tag, 1);
  if (status < 0) fail("registering a buffer", strerror(-status));
  registrations_ += length != 0 ? 1 : 0;
}

void Ring::send(int file, const void* memory, size_t length, uint32_t key) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  io_uring_prep_write_fixed(entry, file, memory, static_cast<unsigned>(length), 0,
                            static_cast<int>(key));
  io_uring_submit(&ring_);
  io_uring_cqe* done = nullptr;
  const int status = io_uring_wait_cqe(&ring_, &done);
  if (status != 0) fail("io_uring_wait_cqe", strerror(-status));
  const int result = done->res;
  io_uring_cqe_seen(&ring_, done);
  if (result < 0) fail("sending", strerror(-result));
  if (static_cast<size_t>(result) != length) fail("sending", "short write");
}

}  // namespace rdmalloc::bench
