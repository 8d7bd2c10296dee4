#include "bench/workloads/ring.h"

#include <string.h>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
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

int Ring::wait(uint64_t* id) {
  io_uring_cqe* done = nullptr;
  const int status = io_uring_wait_cqe(&ring_, &done);
  if (status != 0) fail("io_uring_wait_cqe", strerror(-status));
  const int result = done->res;
  *id = io_uring_cqe_get_data64(done);
  io_uring_cqe_seen(&ring_, done);
  if (result < 0) fail("a transfer", strerror(-result));
  return result;
}

void Ring::send(int file, const void* memory, size_t length, uint32_t key) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  io_uring_prep_write_fixed(entry, file, memory, static_cast<unsigned>(length), 0,
                            static_cast<int>(key));
  io_uring_submit(&ring_);
  uint64_t id = 0;
  if (static_cast<size_t>(wait(&id)) != length) fail("sending", "short write");
}

void Ring::start(const Transfer& transfer, uint64_t id) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  if (entry == nullptr) fail("io_uring_get_sqe", "the ring is full");
  const auto length = static_cast<unsigned>(transfer.length);
  const auto key = static_cast<int>(transfer.key);
  if (transfer.direction == Direction::kToFile) {
    io_uring_prep_write_fixed(entry, transfer.file, transfer.memory, length, transfer.offset, key);
  } else {
    io_uring_prep_read_fixed(entry, transfer.file, transfer.memory, length, transfer.offset, key);
  }
  io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
  io_uring_sqe_set_data64(entry, id);
  lengths_[id] = transfer.length;
  io_uring_submit(&ring_);
}

uint64_t Ring::finish() {
  uint64_t id = 0;
  const auto length = static_cast<size_t>(wait(&id));
  if (length != lengths_[id]) fail("a transfer", "short");
  return id;
}

}  // namespace rdmalloc::bench
