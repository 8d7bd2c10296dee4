// Makes a trace (trace_file.h) from a raw file: puts the threads' calls in one order, replaces
// addresses by objects, and drops what cannot be replayed.
#pragma once

#include <cstdint>

#include "allocator/trace/raw_file.h"
#include "allocator/trace/trace_file.h"

namespace rdmalloc::trace {

struct Packed {
  Header header;
  uint64_t calls = 0;  // read; a resize counts as two
  // Left out, because the recording has no such object: it was allocated before the recording
  // began, or by the parent process before fork, or the program freed what it never had.
  uint64_t unmatched = 0;
  // Addresses that were handed out again although no call freed them: the number of missing frees.
  // Their objects end there.
  uint64_t missing = 0;
  uint64_t damaged = 0;       // records that make no sense
  uint64_t after_stop = 0;    // calls of some threads after others had stopped recording
  uint64_t live_objects = 0;  // at the end
  uint64_t live_bytes = 0;
};

// Calls writer.finish(). Throws std::runtime_error as the writer does.
Packed pack(const RawFile& raw, double ns_per_tick, Writer& writer);

}  // namespace rdmalloc::trace
