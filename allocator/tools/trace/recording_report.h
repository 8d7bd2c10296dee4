// What `trace record` prints at the end, on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocator/tools/trace/recorded_run.h"
#include "allocator/trace/packer.h"

namespace rdmalloc::cli {

class RecordingReport {
 public:
  // All that was recorded, whether it is packed or not: the recorder took its time for all.
  RecordingReport(const RunEnd& end, const std::vector<trace::RawFile>& recordings);

  void add(const trace::RawFile& raw, const std::string& file, const trace::Packed& packed);

  bool has_threads() const { return threads_ > 1; }

  // Given what recording a call costs, in seconds; 0: not known.
  void print(double cost_s) const;

 private:
  void print_overhead(double cost_s) const;

  RunEnd end_;
  uint64_t units_ = 0;
  size_t processes_ = 0;
  uint64_t packed_units_ = 0;
  uint64_t packed_calls_ = 0;
  size_t packed_processes_ = 0;
  uint64_t threads_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace rdmalloc::cli
