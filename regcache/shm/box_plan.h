// mpsc: where in a process's part its inbox and its fast boxes lie. A value; any thread and
// context.
#pragma once

#include <stdint.h>

#include "regcache/shm/shape.h"

namespace rdmalloc::shm {

class BoxPlan {
 public:
  BoxPlan() = default;
  // From `*used` bytes into each part, which grows. Sets the rows of one part.
  BoxPlan(const Shape& shape, uint64_t* used, rdm_shm_plan* rows)
      : inbox_(*used), stride_(shape.cacheline + shape.box_size) {
    const uint32_t peers = shape.procs - 1;
    count_ = peers < shape.boxes ? peers : shape.boxes;
    rows->inboxes = 2 * shape.cacheline;
    rows->boxes = count_ * stride_;
    first_ = inbox_ + rows->inboxes;
    *used = first_ + rows->boxes;
  }

  uint32_t count() const { return count_; }

  // In bytes from the beginning of a part. An inbox has two lines, the senders' and the receiver's;
  // a box one line, then box_size bytes.
  uint64_t inbox() const { return inbox_; }
  uint64_t box(uint32_t index) const { return first_ + index * stride_; }

 private:
  uint64_t inbox_ = 0;
  uint64_t first_ = 0;
  uint64_t stride_ = 0;
  uint32_t count_ = 0;
};

}  // namespace rdmalloc::shm
