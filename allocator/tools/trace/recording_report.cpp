#include "allocator/tools/trace/recording_report.h"

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

using trace::Packed;
using trace::RawFile;
using trace::RawHeader;
using trace::StopReason;

std::string summary(const RawFile& raw, const std::string& file, const Packed& packed) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(file, error);
  const double each = packed.header.events == 0
                          ? 0.0
                          : static_cast<double>(bytes) / static_cast<double>(packed.header.events);
  return file + ": " + raw.name() + ", " + count_text(packed.header.events, "event") + " of " +
         count_text(packed.header.threads, "thread") + ", peak " +
         size_text(packed.header.peak_bytes) + " in " +
         count_text(packed.header.objects, "object") + "; " + size_text(bytes) + " (" +
         size_text(raw.bytes()) + " before packing" +
         (each == 0 ? "" : format(", %.1f bytes an event", each)) + ")";
}

// Why the recording is incomplete, if it is.
std::string end_of(const RawHeader& header) {
  const auto reason = static_cast<StopReason>(header.stopped);
  if (reason == StopReason::kNone) return {};
  const std::string dropped = "; about " + count_text(header.dropped, "call") + " after that " +
                              (header.dropped == 1 ? "is" : "are") + " not in it";
  if (reason == StopReason::kLimit) {
    return "recording stopped at the limit of " + size_text(header.limit) +
           " (--limit), and the program went on" + dropped;
  }
  return std::string("recording stopped for want of space (") +
         strerror(static_cast<int>(header.error)) + "), and the program went on" + dropped;
}

std::string left_out(const Packed& packed) {
  std::string text;
  const auto add = [&text](uint64_t number, const char* what, const char* why) {
    if (number != 0) text += (text.empty() ? "" : "; ") + count_text(number, what) + " " + why;
  };
  add(packed.unmatched, "free", "of memory that was allocated before the recording");
  add(packed.missing, "free", "that nobody saw, of addresses that came again");
  add(packed.damaged, "damaged unit", "");
  return text.empty() ? text : "left out: " + text;
}

}  // namespace

RecordingReport::RecordingReport(const RunEnd& end, const std::vector<RawFile>& recordings)
    : end_(end), processes_(recordings.size()) {
  for (const RawFile& one : recordings) units_ += one.units();
}

void RecordingReport::add(const RawFile& raw, const std::string& file, const Packed& packed) {
  packed_units_ += raw.units();
  packed_calls_ += packed.calls;
  ++packed_processes_;
  threads_ = std::max(threads_, packed.header.threads);
  lines_.push_back(summary(raw, file, packed));
  for (const std::string& line : {end_of(raw.header()), left_out(packed)}) {
    if (!line.empty()) lines_.push_back(line);
  }
}

// For processes that were not packed, the number of calls is estimated from their file space.
void RecordingReport::print_overhead(double cost_s) const {
  if (cost_s <= 0 || packed_units_ == 0) {
    fprintf(stderr, "rdmalloc trace record: what recording cost could not be measured\n");
    return;
  }
  const double calls = static_cast<double>(packed_calls_) * static_cast<double>(units_) /
                       static_cast<double>(packed_units_);
  const double spent = calls * cost_s;
  const double share = end_.cpu_s > 0 ? 100 * spent / end_.cpu_s : 0;
  fprintf(stderr,
          "rdmalloc trace record: the program took %.2f s, %.2f s of processor time; of that the "
          "recorder about %.2f s (%.0f %%), at %.0f ns a call\n",
          end_.wall_s, end_.cpu_s, spent, std::min(share, 100.0), cost_s * 1e9);
}

void RecordingReport::print(double cost_s) const {
  for (const std::string& line : lines_) {
    fprintf(stderr, "rdmalloc trace record: %s\n", line.c_str());
  }
  print_overhead(cost_s);
  const size_t others = processes_ - packed_processes_;
  if (others == 0) return;
  fprintf(stderr, "rdmalloc trace record: %s recorded, too (--all, --process NAME)\n",
          (count_text(others, "other process image") + (others == 1 ? " was" : " were")).c_str());
}

}  // namespace rdmalloc::cli
