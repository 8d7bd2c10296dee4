#include "allocator/tools/top/counter_json.h"

namespace rdmalloc::cli {

using nlohmann::ordered_json;

namespace {

ordered_json phase_json(const PhaseCounters& phase) {
  return {{"name", phase.name},
          {"in_force", phase.is_in_force},
          {"entered", phase.entered},
          {"ns", phase.ns},
          {"peak_live_bytes", phase.peak_live},
          {"peak_held_bytes", phase.peak_held},
          {"peak_pinned_bytes", phase.peak_pinned},
          {"peak_overflow_bytes", phase.peak_overflow}};
}

}  // namespace

ordered_json counters_json(const ProcessCounters& counters) {
  return {{"live_bytes", counters.live},
          {"peak_live_bytes", counters.peak_live},
          {"held_bytes", counters.held},
          {"peak_held_bytes", counters.peak_held},
          {"pinned_bytes", counters.pinned},
          {"peak_pinned_bytes", counters.peak_pinned},
          {"overflow_bytes", counters.overflow},
          {"sparse_bytes", counters.sparse},
          {"regions", counters.regions},
          {"domains", counters.domains},
          {"registered_bytes", counters.registered},
          {"registered_pinned_bytes", counters.registered_pinned},
          {"budget_bytes", counters.budget},
          {"memory_cap_bytes", counters.memory_cap},
          {"budget_limited_by", counters.limit_name},
          {"forked", counters.forked}};
}

ordered_json phases_json(const ProcessCounters& counters) {
  auto phases = ordered_json::array();
  for (const PhaseCounters& phase : counters.phases) phases.push_back(phase_json(phase));
  return phases;
}

}  // namespace rdmalloc::cli
