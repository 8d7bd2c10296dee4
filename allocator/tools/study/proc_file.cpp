#include "allocator/tools/study/proc_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace rdmalloc::cli::study {
namespace {

// Longer than any file read here, except smaps_rollup and a status with many groups, whose relevant
// lines come early.
constexpr size_t kLongestText = 8192;

// Only one thread samples.
size_t kept_files = 0;

size_t most_kept() {
  static const size_t most = [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur / 2, 1024));
  }();
  return most;
}

}  // namespace

ProcFile::ProcFile(pid_t pid, const char* name)
    : path_("/proc/" + (pid == 0 ? "" : std::to_string(pid) + "/") + name),
      descriptor_(kept_files < most_kept() ? open(path_.c_str(), O_RDONLY | O_CLOEXEC) : -1) {
  if (descriptor_ >= 0) ++kept_files;
}

ProcFile::~ProcFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  --kept_files;
}

ProcFile::ProcFile(ProcFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

std::string_view ProcFile::read() const {
  thread_local std::array<char, kLongestText> text;
  const int from = descriptor_ >= 0 ? descriptor_ : open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = from < 0 ? -1 : pread(from, text.data(), text.size(), 0);
  if (from != descriptor_) close(from);
  return got <= 0 ? std::string_view{} : std::string_view{text.data(), static_cast<size_t>(got)};
}

}  // namespace rdmalloc::cli::study
