#include "allocator/tools/top/json.h"

#include "allocator/os/limits.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

template <typename Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

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

// Null without counters.
ordered_json some_counters_json(const std::optional<ProcessCounters>& counters) {
  const ordered_json all = counters ? counters_json(*counters) : ordered_json();
  ordered_json json = {{"rdmalloc", counters.has_value()}};
  for (const char* key : {"held_bytes", "pinned_bytes", "live_bytes", "overflow_bytes",
                          "budget_bytes", "budget_limited_by", "memory_cap_bytes", "domains",
                          "registered_bytes", "registered_pinned_bytes"}) {
    json[key] = counters ? all[key] : ordered_json();
  }
  return json;
}

ordered_json memlock_json(const MachineProcess& process) {
  const bool is_unlimited = process.memlock == os::kNoLimit;
  return {{"memlock_bytes", is_unlimited ? ordered_json(nullptr) : or_null(process.memlock)},
          {"memlock_unlimited", process.memlock ? ordered_json(is_unlimited) : ordered_json()},
          {"may_lock_all", process.status.may_lock_all}};
}

ordered_json process_json(const MachineProcess& process) {
  const ProcessStatus& status = process.status;
  ordered_json json = {{"pid", process.number},
                       {"user", process.user},
                       {"uid", status.user},
                       {"effective_uid", status.effective_user},
                       {"name", status.name},
                       {"resident_bytes", or_null(status.resident)},
                       {"vm_pin_bytes", or_null(status.pinned)},
                       {"vm_lck_bytes", or_null(status.locked)}};
  json.update(some_counters_json(process.counters));
  json.update(memlock_json(process));
  json["granted_bytes"] = or_null(process.granted);
  json["over"] = process.over;
  return json;
}

ordered_json ledger_json(const LedgerView& ledger) {
  const bool is_limited = ledger.is_kept && ledger.cap.has_value();
  return {{"path", ledger.path},
          {"kept", ledger.is_kept},
          {"trouble", ledger.trouble},
          {"processes", ledger.granted.size()},
          {"cap_bytes", or_null(ledger.cap)},
          {"granted_bytes", ledger.is_kept ? ordered_json(ledger.sum()) : ordered_json()},
          {"left_bytes", is_limited ? ordered_json(ledger.left()) : ordered_json()}};
}

ordered_json totals_json(const ordered_json& processes) {
  ordered_json totals = ordered_json::object();
  for (const char* key : {"resident_bytes", "vm_pin_bytes", "vm_lck_bytes", "held_bytes",
                          "pinned_bytes", "live_bytes", "overflow_bytes", "granted_bytes"}) {
    uint64_t sum = 0;
    for (const ordered_json& one : processes)
      sum += one[key].is_null() ? 0 : one[key].get<uint64_t>();
    totals[key] = sum;
  }
  return totals;
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

ordered_json as_json(const TopView& view) {
  ordered_json processes = ordered_json::array();
  for (const MachineProcess& one : view.scan.processes) processes.push_back(process_json(one));
  ordered_json json = {{"format", "rdmalloc-top"},
                       {"version", 1},
                       {"date", time_text()},
                       {"processes_seen", view.scan.seen},
                       {"processes_unreadable", view.scan.unreadable},
                       {"ledger", ledger_json(view.ledger)},
                       {"notes", view.notes},
                       {"totals", totals_json(processes)}};
  json["processes"] = std::move(processes);
  return json;
}

std::string as_text(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', true, ordered_json::error_handler_t::replace);
}

}  // namespace rdmalloc::cli
