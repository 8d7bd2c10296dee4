// The workloads of bench_device_workload, which need an io_uring or rdmalloc's domains.
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr Workload kWorkloads[] = {
    {"message", run_message},
    {"register", run_register},
    {"register_bare", run_register_bare},
    {"count", run_count},
    {"unmap", run_unmap},
    {"miss", run_miss},
    {"fork", run_fork},
    {"slow_device", run_slow_device},
};

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

}  // namespace rdmalloc::bench
