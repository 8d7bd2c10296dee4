#include "allocator/tools/study/watched_process.h"

#include <algorithm>

#include "allocator/tools/top/process_status.h"

namespace rdmalloc::cli::study {
namespace {

constexpr uint64_t kFirstPauseNs = 1'000'000;
constexpr uint64_t kLongestPauseNs = 2'000'000'000;

}  // namespace

WatchedProcess::WatchedProcess(pid_t pid, bool wants_counters)
    : pid_(pid),
      wants_counters_(wants_counters),
      statm_(pid, "statm"),
      stat_(pid, "stat"),
      status_(pid, "status"),
      pause_ns_(kFirstPauseNs) {}

bool WatchedProcess::read_resident() {
  const ProcMemory memory = parse_memory(statm_.read());
  if (memory.mapped == 0) return false;
  reading_.resident = memory.resident;
  peak_resident_ = std::max(peak_resident_, memory.resident);
  if (has_page_) reading_.counters = pages_.back().now();
  return true;
}

bool WatchedProcess::read_faults() {
  const std::optional<ProcStat> stat = parse_stat(stat_.read());
  if (!stat || stat->state == 'Z') return false;
  reading_.minor_faults = stat->minor_faults;
  reading_.major_faults = stat->major_faults;
  if (stat->image != image_ && image_ != 0 && stat->image != 0) {
    has_page_ = false;
    reading_.counters.reset();
    pause_ns_ = kFirstPauseNs;
    next_look_ns_ = 0;
  }
  image_ = stat->image;
  return true;
}

bool WatchedProcess::read_peak() {
  const std::string_view text = status_.read();
  const std::optional<uint64_t> peak = parse_kib_line(text, "VmHWM:");
  if (!peak) return false;
  peak_resident_ = std::max(peak_resident_, *peak);
  reading_.locked = parse_kib_line(text, "VmLck:").value_or(0);
  return true;
}

bool WatchedProcess::read_proportional() {
  // Not kept open: it would still describe the program from before an exec.
  const ProcFile file(pid_, "smaps_rollup");
  const std::optional<uint64_t> bytes = parse_kib_line(file.read(), "Pss:");
  if (bytes) reading_.proportional = bytes;
  return bytes.has_value();
}

void WatchedProcess::look_for_counters(uint64_t now_ns) {
  if (!wants_counters_ || has_page_ || now_ns < next_look_ns_) return;
  if (std::optional<CounterReader> page = CounterReader::open(pid_)) {
    pages_.push_back(std::move(*page));
    has_page_ = true;
    reading_.counters = pages_.back().now();
    return;
  }
  next_look_ns_ = now_ns + pause_ns_;
  pause_ns_ = std::min(pause_ns_ * 2, kLongestPauseNs);
}

}  // namespace rdmalloc::cli::study
