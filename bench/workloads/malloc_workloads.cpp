// The workloads of bench_workload, which need nothing but a malloc.
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
    {"xmalloc", run_xmalloc},
    {"cache_thrash", run_cache_thrash},
    {"cache_scratch", run_cache_scratch},
    {"sh6", run_sh6},
    {"sh8", run_sh8},
    {"mstress", run_mstress},
    {"rptest", run_rptest},
    {"large_touch", run_large_touch},
    {"large_memset", run_large_memset},
    {"large_calloc", run_large_calloc},
    {"large_sparse", run_large_sparse},
    {"large_growth", run_large_growth},
    {"growing_blocks", run_growing_blocks},
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
