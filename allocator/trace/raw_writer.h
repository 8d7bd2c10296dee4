// A process's raw file, mapped: made when the process first allocates, and handed out in chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/trace/raw_format.h"

namespace rdmalloc::trace {

// The variables that configure the recorder. Not RDMALLOC_...: librdmalloc.so may be the next
// malloc, and warns of variables that it does not know.
inline constexpr char kFolderVariable[] = "RDMTRACE_FOLDER";
inline constexpr char kLimitVariable[] = "RDMTRACE_LIMIT";  // bytes

// Constant-initialised. Works inside malloc, in a forked child (after another start()) and, except
// start(), in many threads at once.
class RawWriter {
 public:
  // False: no recording was requested, or it is impossible (then a line on standard error says
  // why).
  bool start();

  // The chunk's first unit; the whole chunk is ready to be written. Null: recording is over, and
  // the file says why.
  uint32_t* take_chunk(uint32_t thread, size_t bytes, uint64_t stamp);

  uint32_t count_thread();
  void count_dropped(uint64_t calls);

 private:
  bool map(int fd, uint64_t limit);
  void make_stretch(uint64_t offset);
  void stop(StopReason reason, int error);

  RawHeader* header_ = nullptr;
  uint64_t limit_ = 0;
  bool made_ready_ = false;  // all of the file, because this kernel cannot populate parts
};

}  // namespace rdmalloc::trace
