// What bench_workload can run: needs nothing but a malloc.
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr Workload kWorkloads[] = {
    {"pairs", run_pairs},
    {"churn", run_churn},
    {"medium", run_medium},
    {"growth", run_growth},
    {"containers", run_containers},
    {"trees", run_trees},
    {"lists", run_lists},
    {"threads", run_threads},
    {"exchange", run_exchange},
    {"larson", run_larson},
    {"large_touch", run_large_touch},
    {"large_memset", run_large_memset},
    {"large_calloc", run_large_calloc},
    {"large_growth", run_large_growth},
    {"block_pair", run_block_pair},
    {"block_set", run_block_set},
    {"block_exchange", run_block_exchange},
    {"stall", run_stall},
    {"domain", run_domain},
    {"huge", run_huge},
    {"acquire", run_acquire},
    {"acquire_bare", run_acquire_bare},
};

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

}  // namespace rdmalloc::bench
