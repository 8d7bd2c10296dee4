// Small objects: CPU time of ours against stock jemalloc, which sets the bar, and the other peers.
#include <stdio.h>

#include "bench/support/comparison.h"

using namespace rdmalloc::bench;

namespace {

constexpr double kLargestRatio = 1.00;
constexpr double kLargestMean = 0.85;

constexpr const char* kWorkloads[] = {"pairs",   "churn",   "growth",       "containers",
                                      "trees",   "lists",   "threads",      "exchange",
                                      "larson",  "xmalloc", "sh6",          "sh8",
                                      "mstress", "rptest",  "cache_thrash", "cache_scratch"};
// Up to 64 KiB: no longer small, so not under the bar, but close enough to watch.
constexpr const char* kBeyond = "medium";

void compare(const std::string& name, const Allocator& peer, bool counts) {
  const bool barred = counts && peer.name == jemalloc().name;
  add({.name = "small/" + name,
       .peer = peer.name,
       .ours = workload_cost({name}, ours()),
       .theirs = workload_cost({name}, peer),
       .rounds = rounds(peer.name == jemalloc().name ? 15 : 5),
       .at_most = barred ? kLargestRatio : 0,
       .in_mean = counts});
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return 1;
  for (const Allocator& peer : peers()) {
    for (const char* name : kWorkloads) compare(name, peer, true);
    compare(kBeyond, peer, false);
  }
  set_mean_bar(jemalloc().name, kLargestMean);
  return run_all(argc, argv);
}
