// Allocating and freeing large blocks: CPU time per turn, ours against glibc and stock jemalloc.
#include <string>
#include <vector>

#include "bench/support/comparison.h"

using namespace rdmalloc::bench;

namespace {

struct Work {
  const char* workload;
  double at_most;  // the bar at 64 MiB
};
constexpr Work kWork[] = {
    {"large_touch", 1.0 / 50}, {"large_memset", 1.0 / 8}, {"large_calloc", 1.0 / 6}};
constexpr size_t kBarredMebibytes = 64;

// Blocks that grow side by side, by steps.
struct Growth {
  const char* shape;  // BLOCKS/STEP, in KiB
  size_t mebibytes;   // of all
};
constexpr Growth kGrowths[] = {{"8/4", 256}, {"200/4", 600}, {"16/256", 304}};
constexpr double kMostForGrowth = 1.05;

Measure per_turn(const std::vector<std::string>& words, const Allocator& allocator) {
  return [=]() -> Cost {
    const Outcome outcome = run(workload(words), allocator);
    const double turns = outcome.number("turns");
    if (!outcome.started || turns < 1) return {};
    return {outcome.number("cpu_ns") * 1e-9 / turns, outcome.number("wall_ns") * 1e-9 / turns};
  };
}

// `more`: the workload's last word, if it has one.
void compare(const std::string& name, size_t mebibytes, const Allocator& peer, double at_most,
             const std::string& more = "") {
  std::vector<std::string> words{name, std::to_string(mebibytes << 20)};
  if (!more.empty()) words.push_back(more);
  add({.name = name + "/" + (more.empty() ? std::to_string(mebibytes) + "M" : more),
       .peer = peer.name,
       .ours = per_turn(words, ours()),
       .theirs = per_turn(words, peer),
       .rounds = rounds(at_most != 0 ? 11 : 5),
       .at_most = at_most,
       .in_mean = false});
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return 1;
  for (const Allocator& peer : {glibc(), jemalloc()}) {
    if (!is_usable(peer)) continue;
    for (const Work& work : kWork) {
      for (const size_t mebibytes : {1, 16, 64, 256}) {
        if (is_short_form() && mebibytes > kBarredMebibytes) continue;
        compare(work.workload, mebibytes, peer, mebibytes == kBarredMebibytes ? work.at_most : 0);
      }
    }
    compare("large_sparse", is_short_form() ? 64 : 1024, peer, 0);
    compare("large_growth", is_short_form() ? 16 : 256, peer, 0);
    for (const Growth& growth : kGrowths) {
      const size_t mebibytes = is_short_form() ? growth.mebibytes / 16 : growth.mebibytes;
      compare("growing_blocks", mebibytes, peer, kMostForGrowth, growth.shape);
    }
  }
  return run_all(argc, argv);
}
