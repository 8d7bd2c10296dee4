#include "allocator/tools/study/proc_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace rdmalloc::cli::study {
namespace {

// Longer than any file read here, except smaps_rollup and a status with many groups, whose relevant
// lines come early.
constexpr size_t kLongestText = 8192;

template <typename Number>
Number to_number(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Takes the next word off the front of a line of words and blanks.
std::string_view next_word(std::string_view& text) {
  const size_t start = text.find_first_not_of(" \t\n");
  if (start == std::string_view::npos) {
    text = {};
    return {};
  }
  const size_t end = std::min(text.find_first_of(" \t\n", start), text.size());
  const std::string_view word = text.substr(start, end - start);
  text.remove_prefix(end);
  return word;
}

// Fields of /proc/PID/stat after the name; the state is 0 (proc(5) counts it as 3).
constexpr int kParent = 1;
constexpr int kMinorFaults = 7;
constexpr int kMajorFaults = 9;
constexpr int kStart = 19;
constexpr int kStartOfStack = 25;

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

ProcMemory parse_memory(std::string_view statm) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  ProcMemory memory;
  memory.mapped = to_number<uint64_t>(next_word(statm));
  memory.resident = to_number<uint64_t>(next_word(statm)) * page;
  return memory;
}

std::optional<ProcStat> parse_stat(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  ProcStat result;
  const std::string_view state = next_word(stat);
  if (state.size() != 1) return std::nullopt;
  result.state = state[0];
  for (int i = 1; i <= kStartOfStack; ++i) {
    const std::string_view word = next_word(stat);
    if (word.empty()) return std::nullopt;
    if (i == kParent) result.parent = to_number<pid_t>(word);
    if (i == kMinorFaults) result.minor_faults = to_number<uint64_t>(word);
    if (i == kMajorFaults) result.major_faults = to_number<uint64_t>(word);
    if (i == kStart) result.start = to_number<uint64_t>(word);
    if (i == kStartOfStack) result.image = to_number<uint64_t>(word);
  }
  return result;
}

std::optional<uint64_t> parse_kib_line(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::string_view rest = text.substr(at + key.size());
    const std::string_view number = next_word(rest);
    if (number.empty() || number[0] < '0' || number[0] > '9') return std::nullopt;
    return to_number<uint64_t>(number) * 1024;
  }
  return std::nullopt;
}

uint64_t parse_last_number(std::string_view loadavg) {
  std::string_view last;
  for (int i = 0; i < 5; ++i) last = next_word(loadavg);
  return to_number<uint64_t>(last);
}

}  // namespace rdmalloc::cli::study
