// What we use of linux/io_uring.h: headers before Linux 5.13 lack it, or all of the file. The
// kernel's own names stand beside ours.
#pragma once

#include <cstdint>

namespace rdmalloc::os {

enum class IoUringOperation : unsigned {
  kRegisterBuffers = 0,  // IORING_REGISTER_BUFFERS, and so on
  kUnregisterBuffers = 1,
  kRegisterBuffers2 = 15,
  kRegisterBuffersUpdate = 16,
};

// io_uring_rsrc_register: so many empty slots.
struct IoUringTable {
  uint32_t slots = 0;
  uint32_t flags = 1;  // IORING_RSRC_REGISTER_SPARSE, since Linux 5.19
  uint64_t rest[3] = {};
};

// io_uring_rsrc_update2
struct IoUringUpdate {
  uint32_t first_slot = 0;
  uint32_t reserved = 0;
  uint64_t data = 0;  // address of iovecs
  uint64_t tags = 0;
  uint32_t slots = 0;
  uint32_t reserved_too = 0;
};

// io_uring_params
struct IoUringParameters {
  struct SubmissionRing {  // offsets in bytes from IORING_OFF_SQ_RING
    uint32_t head = 0;
    uint32_t tail = 0;
    uint32_t rest[4] = {};
    uint32_t array = 0;
    uint32_t reserved[3] = {};
  };
  uint32_t submissions = 0;
  uint32_t completions = 0;
  uint32_t flags = 0;
  uint32_t rest[7] = {};
  SubmissionRing ring;
  uint32_t completion_ring[10] = {};
};

// io_uring_sqe
struct IoUringSubmission {
  uint8_t opcode = 0;
  uint8_t flags = 0;
  uint16_t priority = 0;
  int32_t descriptor = 0;
  uint64_t offset = 0;
  uint64_t address = 0;
  uint32_t length = 0;
  uint32_t rest[9] = {};
};

}  // namespace rdmalloc::os
