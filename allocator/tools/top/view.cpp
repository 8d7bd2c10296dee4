#include "allocator/tools/top/view.h"

#include <algorithm>

#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

constexpr const char* kByRight = "over memlock by right";

// Notes processes that were requested by number but do not exist.
void note_missing(const ProcessFilter& filter, TopView* view) {
  for (const pid_t number : filter.numbers) {
    const auto is_it = [number](const MachineProcess& one) { return one.number == number; };
    if (std::ranges::any_of(view->scan.processes, is_it)) continue;
    view->notes.push_back("there is no process " + std::to_string(number) +
                          " that this user can see");
  }
}

void note_hidden(const TopView& view, std::vector<std::string>* notes) {
  if (view.scan.unreadable != 0) {
    notes->push_back(count_text(view.scan.unreadable, "process") +
                     " may not be inspected: ask as root");
  }
  if (hides_processes()) {
    notes->push_back("/proc hides other users' processes (hidepid): ask as root to see them");
  }
}

void note_ledger(const LedgerView& ledger, std::vector<std::string>* notes) {
  if (!ledger.trouble.empty()) {
    notes->push_back(printable(ledger.trouble) + ": what was granted is not known");
  }
  if (ledger.has_several_caps) {
    notes->push_back("processes have different limits for the machine; the largest is shown");
  }
}

}  // namespace

std::vector<std::string> over(const MachineProcess& process, const LedgerView& ledger) {
  std::vector<std::string> words;
  if (process.counters && process.counters->overflow != 0) words.emplace_back("overflow");
  const uint64_t most = std::max(process.status.locked.value_or(0),  //
                                 process.status.pinned.value_or(0));
  if (process.memlock && most > *process.memlock) {
    words.emplace_back(process.status.may_lock_all ? kByRight : "over memlock");
  }
  const bool is_of_machine = !ledger.granted_in_groups.contains(process.number);
  if (process.granted && is_of_machine && ledger.is_over_share(*process.granted))
    words.emplace_back("over share");
  return words;
}

bool has_too_much(const MachineProcess& process) {
  return std::ranges::any_of(process.over, [](const auto& word) { return word != kByRight; });
}

TopView view_of_machine(const ProcessFilter& filter) {
  TopView view;
  view.ledger = read_ledger();
  const auto& granted = view.ledger.granted;
  const auto& in_groups = view.ledger.granted_in_groups;
  const auto is_known = [&](pid_t number) {
    return granted.contains(number) || in_groups.contains(number);
  };
  view.scan = scan_processes("/proc", filter, is_known, read_counters);
  for (MachineProcess& process : view.scan.processes) {
    const auto entry = granted.find(process.number);
    if (entry != granted.end()) process.granted = entry->second;
    const auto in_group = in_groups.find(process.number);
    if (in_group != in_groups.end()) process.granted = in_group->second;
    process.over = over(process, view.ledger);
  }
  note_missing(filter, &view);
  note_hidden(view, &view.notes);
  note_ledger(view.ledger, &view.notes);
  return view;
}

}  // namespace rdmalloc::cli
