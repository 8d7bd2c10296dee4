// Allocating and freeing large blocks: CPU time per turn, ours against glibc and stock jemalloc.
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

Measure per_turn(const std::string& name, size_t mebibytes, const Allocator& allocator) {
  return [=]() -> Cost {
    const Outcome outcome = run(workload({name, std::to_string(mebibytes << 20)}), allocator);
    const double turns = outcome.number("turns");
    if (!outcome.started || turns < 1) return {};
    return {outcome.number("cpu_ns") * 1e-9 / turns, outcome.number("wall_ns") * 1e-9 / turns};
  };
}

void compare(const std::string& name, size_t mebibytes, const Allocator& peer, double at_most) {
  add({.name = name + "/" + std::to_string(mebibytes) + "M",
       .peer = peer.name,
       .ours = per_turn(name, mebibytes, ours()),
       .theirs = per_turn(name, mebibytes, peer),
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
  }
  return run_all(argc, argv);
}
