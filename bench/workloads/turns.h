// Several ways of doing something in one process, timed in turns.
#pragma once

#include <string>
#include <vector>

#include "bench/support/median.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {

class Turns {
 public:
  explicit Turns(std::vector<std::string> names) : sides_(names.size()), names_(std::move(names)) {}

  // work() does it `count` times.
  template <typename Work>
  void time(size_t side, size_t count, const Work& work) {
    Meter meter;
    meter.start();
    work();
    meter.stop();
    sides_[side].cpu.push_back(picoseconds(meter.cpu_ns(), count));
    sides_[side].wall.push_back(picoseconds(meter.wall_ns(), count));
  }

  // Reports the medians for one operation as NAME_cpu_ps and NAME_wall_ps.
  void report_all() const {
    for (size_t i = 0; i < sides_.size(); ++i) {
      if (sides_[i].cpu.empty()) continue;
      report((names_[i] + "_cpu_ps").c_str(), static_cast<uint64_t>(median(sides_[i].cpu)));
      report((names_[i] + "_wall_ps").c_str(), static_cast<uint64_t>(median(sides_[i].wall)));
    }
  }

 private:
  struct Side {
    std::vector<double> cpu, wall;
  };

  static double picoseconds(uint64_t ns, size_t count) {
    return static_cast<double>(ns) * 1000 / static_cast<double>(count);
  }

  std::vector<Side> sides_;
  std::vector<std::string> names_;
};

}  // namespace rdmalloc::bench
