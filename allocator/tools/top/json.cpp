#include "allocator/tools/top/json.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "allocator/os/limits.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

template <typename Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

std::string time_now() {
  const time_t now = time(nullptr);
  tm parts{};
  char text[32] = "";
  if (gmtime_r(&now, &parts) != nullptr) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

ordered_json counters_json(const std::optional<ProcessCounters>& counters) {
  const auto field = [&counters](auto ProcessCounters::*of) -> ordered_json {
    return counters ? ordered_json((*counters).*of) : ordered_json(nullptr);
  };
  return {{"rdmalloc", counters.has_value()},
          {"held_bytes", field(&ProcessCounters::held)},
          {"pinned_bytes", field(&ProcessCounters::pinned)},
          {"live_bytes", field(&ProcessCounters::live)},
          {"overflow_bytes", field(&ProcessCounters::overflow)},
          {"budget_bytes", field(&ProcessCounters::budget)},
          {"budget_limited_by", field(&ProcessCounters::limit_name)},
          {"memory_cap_bytes", field(&ProcessCounters::memory_cap)},
          {"domains", field(&ProcessCounters::domains)},
          {"registered_bytes", field(&ProcessCounters::registered)},
          {"registered_pinned_bytes", field(&ProcessCounters::registered_pinned)}};
}

ordered_json memlock_json(const MachineProcess& process) {
  const bool is_unlimited = process.memlock == os::kNoLimit;
  return {{"memlock_bytes", is_unlimited ? ordered_json(nullptr) : or_null(process.memlock)},
          {"memlock_unlimited", process.memlock ? ordered_json(is_unlimited) : nullptr},
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
  json.update(counters_json(process.counters));
  json.update(memlock_json(process));
  json["granted_bytes"] = or_null(process.granted);
  json["over"] = process.over;
  return json;
}

ordered_json ledger_json(const LedgerView& ledger) {
  const bool is_limited = ledger.is_kept && ledger.cap.has_value();
  const auto known = [](bool is_known, uint64_t bytes) {
    return is_known ? ordered_json(bytes) : ordered_json(nullptr);
  };
  return {{"path", ledger.path},
          {"kept", ledger.is_kept},
          {"trouble", ledger.trouble},
          {"processes", ledger.granted.size()},
          {"cap_bytes", or_null(ledger.cap)},
          {"granted_bytes", known(ledger.is_kept, ledger.sum())},
          {"left_bytes", known(is_limited, ledger.left())}};
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

ordered_json as_json(const TopView& view) {
  ordered_json processes = ordered_json::array();
  for (const MachineProcess& one : view.scan.processes) processes.push_back(process_json(one));
  ordered_json json = {{"format", "rdmalloc-top"},
                       {"version", 1},
                       {"date", time_now()},
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
