// The layout of a segment of shared memory: pure arithmetic, no tables, each query answered in
// constant time, for any number of processes. The segment is exactly as long as the plan says, and
// `rdmalloc shm-plan` prints the same plan.
//
//   segment header | part of rank 0 | part of rank 1 | ...        each begins on a page
//
//   a part: control | what carries messages | free lists of fragments
//     page, cacheline: an allocation for the FIFOs; per peer: wrapper, queue and tail, head
//     aggregated:      one allocation: FIFOs, queues, heads and tails, wrappers
//     mpsc:            inbox, fast boxes
//
// The structures a process receives through lie in its own part, and so do the heads it sends with:
// a part is what one process binds to its node.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/rdmalloc/shm_plan.h"
#include "regcache/shm/layout.h"

namespace rdmalloc::shm {

// Options with the defaults filled in, in fixed-width types: stored in a segment's header, so that
// processes that attach compute the same plan.
struct Shape {
  uint32_t procs;
  uint32_t layout;  // RDM_SHM_PAGE, ...
  uint32_t flags;   // RDM_SHM_MULTITHREADED, ...
  uint32_t queue_entries;
  uint64_t page_size;
  uint64_t cacheline;
  uint64_t eager_limit;
  uint64_t chunk_size;
  uint32_t eager_fragments;
  uint32_t max_fragments;
  uint32_t boxes;
  uint32_t reserved;  // 0
  uint64_t box_size;
};
static_assert(sizeof(Shape) == 72);

// RDM_OK, or RDM_INVALID and a message at `why`: the options are null, or without their size. Other
// values are not checked yet.
int read_options(const rdm_shm_plan_options* given, Shape* out, char* why, size_t why_size);

// RDM_OK, or RDM_INVALID and a message at `why`: a value is out of range.
int check(const Shape& shape, char* why, size_t why_size);

// Returns RDM_INVALID; writes the message to `why`, cut to `why_size` bytes.
__attribute__((format(printf, 3, 4))) int invalid(char* why, size_t why_size, const char* format,
                                                  ...);

// A value: created by make(), then constant. Queries may come from any thread and context. Of a
// pair, `from` sends and `to` receives; they differ. Offsets are relative to the segment.
class Plan {
 public:
  // RDM_OK, or RDM_INVALID and a message at `why`; *out is then unchanged. Checks all of `shape`,
  // which may be untrusted.
  static int make(const Shape& shape, Plan* out, char* why, size_t why_size);

  Plan() = default;
  const Shape& shape() const { return shape_; }
  uint64_t bytes() const { return rows_.bytes; }
  const rdm_shm_plan& rows() const { return rows_; }

  // Everything that belongs to one process, in whole pages.
  Range part(uint32_t rank) const;
  // The kSlotBytes at the start of the part, on their own lines.
  uint64_t slot(uint32_t rank) const { return part(rank).offset; }
  // kListHeadBytes each, on their own lines.
  uint64_t eager_list(uint32_t rank) const { return slot(rank) + slot_stride_; }
  uint64_t max_list(uint32_t rank) const { return eager_list(rank) + list_stride_; }

  // Not for mpsc. fifo(), wrapper(), queue() and tail() lie in the receiver's part, head() in the
  // sender's.
  uint64_t fifo(uint32_t from, uint32_t to) const;
  uint64_t wrapper(uint32_t from, uint32_t to) const;
  uint64_t queue(uint32_t from, uint32_t to) const;
  uint64_t tail(uint32_t from, uint32_t to) const;
  uint64_t head(uint32_t from, uint32_t to) const;

  // mpsc only: two lines, the senders' and the receiver's; per box one line, then box_size bytes.
  uint64_t inbox(uint32_t rank) const { return max_list(rank) + list_stride_; }
  uint64_t box(uint32_t rank, uint32_t index) const;
  uint32_t box_count() const { return box_count_; }

  // A fragment is kFragmentHeaderBytes, then the bytes of a message. Each begins on a line.
  uint64_t eager_fragment(uint32_t rank, uint32_t index) const;
  uint64_t max_fragment(uint32_t rank, uint32_t index) const;
  uint32_t eager_count() const { return eager_count_; }
  uint32_t max_count() const { return max_count_; }
  uint64_t eager_bytes() const { return eager_bytes_; }
  uint64_t max_bytes() const { return shape_.chunk_size; }

 private:
  void lay_out_control();
  void lay_out_pairs();
  void lay_out_aggregate();
  void lay_out_boxes();
  void lay_out_fragments();
  bool lay_out_parts();

  bool has_pairs() const { return shape_.layout != RDM_SHM_MPSC; }
  bool is_aggregated() const { return shape_.layout == RDM_SHM_AGGREGATED; }
  uint64_t to_lines(uint64_t bytes) const;
  uint64_t block_bytes(uint64_t payload) const;
  uint64_t payload_of(uint64_t block) const;
  uint64_t peer_blocks(uint32_t owner, uint32_t peer) const;
  uint64_t aggregate(uint32_t owner) const;

  Shape shape_ = {};
  rdm_shm_plan rows_ = {};
  uint64_t alignment_ = 0;  // of allocations
  uint64_t first_part_ = 0;
  uint64_t part_bytes_ = 0;
  // Within a part, in bytes: control.
  uint64_t slot_stride_ = 0;
  uint64_t list_stride_ = 0;
  // In the order of a part, from its beginning. If allocations are separate, these are blocks.
  uint64_t fifos_ = 0;
  uint64_t pairs_ = 0;  // page, cacheline
  uint64_t boxes_ = 0;
  uint64_t eager_ = 0;
  uint64_t max_ = 0;
  uint64_t used_ = 0;  // the rest is padding
  // page, cacheline: the blocks of one peer.
  uint64_t wrapper_block_ = 0;
  uint64_t queue_block_ = 0;
  uint64_t head_block_ = 0;
  uint64_t queue_bytes_ = 0;  // the tail follows
  // aggregated: relative to the payload, which begins with the FIFOs.
  uint64_t queues_ = 0;
  uint64_t heads_ = 0;
  uint64_t wrappers_ = 0;
  uint64_t pair_stride_ = 0;  // from one peer's head to the next peer's
  uint64_t tail_offset_ = 0;  // from a head to the tail beside it
  // Fragments and boxes.
  uint64_t eager_bytes_ = 0;
  uint64_t eager_stride_ = 0;
  uint64_t max_stride_ = 0;
  uint64_t box_stride_ = 0;
  uint32_t eager_count_ = 0;
  uint32_t max_count_ = 0;
  uint32_t box_count_ = 0;
};

}  // namespace rdmalloc::shm
