// `rdmalloc shm-plan`: the parts of a shared-memory segment between a number of processes, and how
// much room each takes.
#pragma once

#include <string>

#include "allocator/os/page_size.h"
#include "include/rdmalloc/shm_plan.h"

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct ShmPlanRequest {
  ShmPlanRequest() {
    plan.page_size = os::page_size();
    plan.cacheline = RDM_SHM_CACHELINE_SIZE;
    plan.eager_limit = RDM_SHM_EAGER_LIMIT;
    plan.queue_entries = RDM_SHM_QUEUE_ENTRIES;
    plan.chunk_size = RDM_SHM_CHUNK_SIZE;
    plan.max_fragments = RDM_SHM_MAX_FRAGMENTS;
    plan.boxes = RDM_SHM_BOXES;
  }

  rdm_shm_plan_options plan = {};  // but for its layout and flags
  std::string layout = "aggregated";
  std::string threads = "single";
  bool eager_with_header = false;
};

// `request` must outlive the App. A malformed value is a parse error that says what is well-formed.
void add_shm_plan_flags(CLI::App& command, ShmPlanRequest& request);

// Prints the plan; throws Refusal when there is none.
int shm_plan(const ShmPlanRequest& request, bool json);

}  // namespace rdmalloc::cli
