#include "allocator/tools/top/stats.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/counter_reader.h"
#include "allocator/tools/top/json.h"
#include "allocator/tools/top/machine_processes.h"
#include "allocator/tools/top/node_pages.h"
#include "allocator/tools/top/process_status.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

MachineProcess find_process(pid_t number) {
  ProcessFilter filter;
  filter.numbers = {number};
  const auto is_known = [](pid_t) { return false; };
  const auto no_counters = [](pid_t) { return std::optional<ProcessCounters>(); };
  MachineScan scan = scan_processes("/proc", filter, is_known, no_counters);
  const std::string who = "stats: process " + std::to_string(number);
  if (scan.unreadable != 0) throw Refusal(who + " may not be inspected: ask as root", kExitProblem);
  if (scan.processes.empty()) {
    throw Refusal("stats: there is no process " + std::to_string(number) +
                      (hides_processes() ? " that /proc shows to this user (hidepid)" : ""),
                  kExitProblem);
  }
  if (scan.processes[0].status.has_ended) throw Refusal(who + " has ended", kExitProblem);
  return std::move(scan.processes[0]);
}

// Says why there are no counters.
[[noreturn]] void refuse(const MachineProcess& process) {
  const std::string who = "stats: process " + std::to_string(process.number) + " (" +
                          printable(process.status.name) + ") ";
  const std::string maps = read_file("/proc/" + std::to_string(process.number) + "/maps");
  const bool is_readable = !maps.empty();
  const bool is_under_us = maps.find("/librdmalloc.so") != std::string::npos;
  const ProcessStatus& status = process.status;
  const uid_t self = geteuid();
  std::string why = "does not run under rdmalloc: start it with rdmalloc run -- PROGRAM";
  if (is_under_us) {
    why =
        "runs under rdmalloc, but is too small to show its counters (start it with "
        "RDMALLOC_COUNTERS_FROM=1), has closed the descriptor of its counters, or had none left "
        "(ulimit -n)";
  } else if (!status.resident) {
    why = "is a thread of the kernel";
  } else if (!is_readable && (status.user != self || status.effective_user != self)) {
    why = "is another user's (" + process.user + "): ask as that user or as root";
  } else if (!is_readable && self == 0) {
    why = "cannot be inspected, not even by this root, which may be that of a container";
  } else if (!is_readable) {
    why =
        "cannot be inspected, like all programs that gain rights when they are executed: ask as "
        "root";
  }
  throw Refusal(who + why, kExitProblem);
}

void print_text(const MachineProcess& process, const ProcessCounters& counters) {
  printf("rdmalloc statistics of process %d (%s)\n", process.number,
         printable(process.status.name).c_str());
  const ordered_json all = counters_json(counters);
  for (const auto& [key, value] : all.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    printf("  %-24s%s\n", key.c_str(), text.c_str());
  }
  if (counters.phases.empty()) return;
  printf("\n  %-14s%9s%10s%11s%11s%11s%11s\n", "phase", "entered", "seconds", "peak live", "held",
         "pinned", "overflow");
  for (const PhaseCounters& phase : counters.phases) {
    printf("  %-14s%9lu%10.3f", printable(phase.name).c_str(), phase.entered,
           static_cast<double>(phase.ns) * 1e-9);
    for (const uint64_t peak :
         {phase.peak_live, phase.peak_held, phase.peak_pinned, phase.peak_overflow}) {
      printf("%11s", size_text(peak).c_str());
    }
    puts("");
  }
}

PlacedPages placed_pages(pid_t process, const ProcessCounters& counters) {
  if (const auto placed = find_placed_pages(process, counters)) return *placed;
  const std::string file = "/proc/" + std::to_string(process) + "/numa_maps";
  throw Refusal(errno == ENOENT ? "stats: there is no " + file + ": this kernel knows no NUMA nodes"
                                : "stats: " + file + " may not be read: ask as root",
                kExitProblem);
}

}  // namespace

void add_stats_flags(CLI::App& command, StatsRequest& request) {
  command.add_option("PID", request.process, "the process")
      ->required()
      ->check(objection_to_process);
  command.add_flag("--numa", request.numa, "also print on which NUMA nodes its pages lie");
}

int stats(const StatsRequest& request, bool json) {
  const MachineProcess found = find_process(request.process);
  const auto counters = read_counters(request.process);
  if (!counters) refuse(found);
  const auto placed = request.numa ? placed_pages(request.process, *counters) : PlacedPages();
  if (json) {
    ordered_json all = counters_json(*counters);
    all["pid"] = found.number;
    all["name"] = found.status.name;
    all["phases"] = phases_json(*counters);
    if (request.numa) all["numa"] = placed_pages_json(placed);
    puts(as_text(all, 2).c_str());
  } else {
    print_text(found, *counters);
    if (request.numa) print_placed_pages(placed);
  }
  return fflush(stdout) == 0 ? kExitOk : kExitProblem;
}

}  // namespace rdmalloc::cli
