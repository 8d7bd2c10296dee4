// `rdmalloc shm-plan`: the parts of a shared-memory segment between a number of processes, and how
// much room each takes.
#pragma once

#include <cstdint>
#include <string>

#include "allocator/os/page_size.h"
#include "include/rdmalloc/shm_plan.h"

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct ShmPlanRequest {
  uint64_t procs = 0;
  uint64_t page_size = os::page_size();
  uint64_t cacheline = RDM_SHM_CACHELINE_SIZE;
  uint64_t eager_limit = RDM_SHM_EAGER_LIMIT;
  uint64_t queue_entries = RDM_SHM_QUEUE_ENTRIES;
  uint64_t chunk_size = RDM_SHM_CHUNK_SIZE;
  // 0: the default, which for the first and the last depends on others.
  uint64_t eager_fragments = 0;
  uint64_t max_fragments = RDM_SHM_MAX_FRAGMENTS;
  uint64_t boxes = RDM_SHM_BOXES;
  uint64_t box_size = 0;
  std::string layout = "aggregated";
  std::string threads = "single";
  bool eager_with_header = false;
};

// `request` must outlive the App. A malformed value is a parse error that says what is well-formed.
void add_shm_plan_flags(CLI::App& command, ShmPlanRequest& request);

// Prints the plan; throws Refusal when there is none.
int shm_plan(const ShmPlanRequest& request, bool json);

}  // namespace rdmalloc::cli
