// Files of /proc/PID, kept open and read again and again, because opening is half of the cost.
// Above a certain number, which leaves descriptors to others, they are opened each time. Do not use
// it for files that are bound to the memory map at the time of opening (maps, smaps): they end with
// an exec.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace rdmalloc::cli::study {

class ProcFile {
 public:
  ProcFile(pid_t pid, const char* name);
  ~ProcFile();
  ProcFile(ProcFile&& other) noexcept;
  ProcFile& operator=(ProcFile&&) = delete;

  // Its current text, valid until the thread's next read; empty: the process is gone or not ours.
  std::string_view read() const;

 private:
  std::string path_;
  int descriptor_;  // -1: not kept
};

}  // namespace rdmalloc::cli::study
