// A process's raw file, mapped: made when the process first allocates, and then chunks of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/trace/raw_format.h"

namespace rdmalloc::trace {

// The variables that tell the recorder what to do. Not RDMALLOC_...: librdmalloc.so, which may be
// below, warns of those that it does not know.
inline constexpr char kFolderVariable[] = "RDMTRACE_FOLDER";
inline constexpr char kLimitVariable[] = "RDMTRACE_LIMIT";  // bytes

// Constant-initialised; works inside malloc, in a child of fork (start() again), and in many
// threads at once but for start().
class RawWriter {
 public:
  // False: nobody asked for a recording, or it cannot be (then a line on standard error says why).
  bool start();

  // The chunk's first unit, all of it ready to be written to; null: recording is over, and the file
  // says why.
  uint32_t* take_chunk(uint32_t thread, size_t bytes, uint64_t stamp);

  uint32_t count_thread();
  void count_dropped(uint64_t calls);

 private:
  bool map(int fd, uint64_t limit);
  void make_stretch(uint64_t offset);
  void stop(StopReason reason, int error);

  RawHeader* header_ = nullptr;
  uint64_t limit_ = 0;
  bool made_ready_ = false;  // all of it, because this kernel cannot do it in parts
};

}  // namespace rdmalloc::trace
