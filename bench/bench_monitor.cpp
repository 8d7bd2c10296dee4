// What the monitors cost: for mapping and unmapping memory that is not registered, against the bare
// system calls and UCX's hooks; and for the first get of a buffer, against a bare io_uring
// registration. A monitor is chosen once per process, so each has its own child; within a child the
// sides are timed in turns.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <list>
#include <map>
#include <string>
#include <vector>

#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/child.h"
#include "bench/support/contest.h"
#include "bench/support/median.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kLocked = size_t{256} << 20;
constexpr double kMostAddedNs = 100;
constexpr const char* kRegistered = "1000";

struct Case {
  std::string name;
  std::vector<std::string> arguments;
  const Allocator* allocator;
  std::string monitor;  // the one that must be in force; empty: any
  std::vector<std::string> environment;
  std::vector<std::string> figures;  // the child's figures, without _cpu_ps
  std::map<std::string, std::vector<double>> ns = {};

  double time(const std::string& figure) const {
    const auto found = ns.find(figure);
    return found == ns.end() ? 0 : median(found->second);
  }
  // The difference of two figures that one child timed in turns.
  double more(const std::string& figure, const std::string& than) const {
    std::vector<double> differences;
    const auto these = ns.find(figure);
    const auto those = ns.find(than);
    if (these == ns.end() || those == ns.end()) return 0;
    for (size_t i = 0; i < these->second.size(); ++i) {
      differences.push_back(these->second[i] - those->second[i]);
    }
    return median(differences);
  }
};

// Lists, because Google Benchmark keeps references.
std::list<Case> unmapping;
std::list<Case> plain;  // the same without hooks: what libc's own calls add
std::list<Case> missing;
bool child_failed = false;

bool run_child(Case& what) {
  const Outcome outcome =
      run(sibling("bench_device_workload", what.arguments), *what.allocator, what.environment);
  if (!outcome.started) return false;
  if (!what.monitor.empty() &&
      outcome.output.find("monitor " + what.monitor + "\n") == std::string::npos) {
    fprintf(stderr, "%s: another monitor is in force\n", what.name.c_str());
    return false;
  }
  for (const std::string& figure : what.figures) {
    for (const char* clock : {"_cpu", "_wall"}) {
      const double got = outcome.number(figure + clock + "_ps");
      if (got >= 0) what.ns[figure + clock].push_back(got / 1000);
    }
  }
  return true;
}

void add(Case& what, const std::string& timed) {
  benchmark::RegisterBenchmark(what.name.c_str(),
                               [&what, timed](benchmark::State& state) {
                                 for (auto unused : state) {
                                   (void)unused;
                                   if (!run_child(what)) {
                                     child_failed = true;
                                     state.SkipWithError("a child failed");
                                     return;
                                   }
                                   state.SetIterationTime(what.time(timed) * 1e-9);
                                 }
                                 for (const auto& [figure, values] : what.ns) {
                                   state.counters["ns_" + figure] = median(values);
                                 }
                               })
      ->UseManualTime()
      ->Iterations(rounds(5))
      ->Unit(benchmark::kNanosecond);
}

struct Who {
  const char* title;
  const char* kind;
  const Allocator& allocator;
  const char* monitor;
};

std::vector<std::string> monitor_option(const Who& who) {
  if (who.monitor[0] == '\0') return {};
  return {std::string("RDMALLOC_MONITOR=") + who.monitor};
}

// The monitors and hooks that this machine has; prints a line for each that it lacks.
std::vector<Who> everybody() {
  std::vector<Who> all = {{"interposed", "rdmalloc", ours(), "interposed"},
                          {"none", "rdmalloc", ours(), "none"}};
  const Outcome outcome = run(sibling("bench_device_workload", {"unmap", "1", "rdmalloc"}), ours(),
                              {"RDMALLOC_MONITOR=userfaultfd", "BENCH_SHORT=1"});
  if (outcome.output.find("monitor userfaultfd\n") != std::string::npos) {
    all.push_back({"userfaultfd", "rdmalloc", ours(), "userfaultfd"});
  } else {
    fprintf(stderr, "skipped: userfaultfd: not in force here; rdmalloc doctor says why\n");
  }
  if (BENCH_HAS_UCX) {
    all.push_back({"UCX's hooks", "ucx", glibc(), ""});
  } else {
    fprintf(stderr, "skipped: UCX: built without libucx-dev\n");
  }
  return all;
}

void add_unmapping(std::list<Case>& cases, const Who& who, const char* registered) {
  Case& added =
      cases.emplace_back(Case{std::string("unmap/") + who.title + "/registered:" + registered,
                              {"unmap", registered, who.kind},
                              &who.allocator,
                              registered[0] == '0' ? "" : who.monitor,
                              monitor_option(who),
                              {"raw", "unmap", "both", "registered", "other"}});
  add(added, "both_cpu");
}

// How much more a call adds to the bare system calls here than libc's own call does, with the same
// number of buffers, in a process without hooks.
double added(const Case& what, const std::string& call, const std::string& clock) {
  for (const Case& without : plain) {
    if (without.arguments[1] != what.arguments[1] || without.ns.empty()) continue;
    return what.more(call + clock, "raw" + clock) - without.more(call + clock, "raw" + clock);
  }
  return what.more(call + clock, "raw" + clock);
}

void add_missing(const Who& who, const char* title, const std::vector<std::string>& more) {
  Case& added = missing.emplace_back(Case{std::string("miss/") + who.title + title,
                                          {"miss", "0", who.kind},
                                          &who.allocator,
                                          who.monitor,
                                          monitor_option(who),
                                          {"get", "forget", "add", "remove"}});
  added.environment.insert(added.environment.end(), more.begin(), more.end());
  add(added, "get_cpu");
}

void print_unmapping() {
  printf(
      "\nmunmap, and mmap and munmap, of 64 KiB that nobody registered: ns that are added to "
      "libc's; "
      "and munmap\nof registered memory (the device costs nothing): ns more than the system "
      "call\n"
      "%-34s %10s %10s %10s %10s %10s %12s\n",
      "CPU (wall)", "bare pair", "munmap +", "pair +", "(munmap +)", "(pair +)", "(reg'd +)");
  for (const Case& what : unmapping) {
    if (what.ns.empty()) continue;
    printf("%-34s %10.1f %10.1f %10.1f %10.1f %10.1f %12.1f\n", what.name.c_str(),
           what.time("raw_cpu"), added(what, "unmap", "_cpu"), added(what, "both", "_cpu"),
           added(what, "unmap", "_wall"), added(what, "both", "_wall"),
           what.more("registered_wall", "other_wall"));
  }
}

void print_missing() {
  printf(
      "\na buffer of 64 KiB for the first time, and munmap of it: ns; add: bare registering; "
      "remove: "
      "taking\nit back and a bare munmap, in the same process\n%-34s %10s %10s %10s %10s %12s "
      "%12s\n",
      "CPU", "get+put", "munmap", "add", "remove", "get+put/add", "cycle/bare");
  for (const Case& what : missing) {
    if (what.ns.empty()) continue;
    const double get = what.time("get_cpu");
    const double forget = what.time("forget_cpu");
    const double bare_add = what.time("add_cpu");
    const double bare_remove = what.time("remove_cpu");
    printf("%-34s %10.0f %10.0f %10.0f %10.0f %12.2f %12.2f\n", what.name.c_str(), get, forget,
           bare_add, bare_remove, get / bare_add, (get + forget) / (bare_add + bare_remove));
  }
}

bool judge_all() {
  std::vector<double> values;
  for (const Case& what : unmapping) {
    if (what.name.find("/interposed/") == std::string::npos || what.ns.empty()) continue;
    values.push_back(added(what, "unmap", "_cpu"));
  }
  return judge("interposed: ns added to munmap of 64 KiB", values, Limit::kAtMost, kMostAddedNs);
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (!can_lock(kLocked)) return kSkipped;
  const Who nobody = {"libc's", "none", glibc(), ""};
  for (const char* registered : {"0", kRegistered}) {
    add_unmapping(plain, nobody, registered);
  }
  for (const Who& who : everybody()) {
    for (const char* registered : {"0", kRegistered}) add_unmapping(unmapping, who, registered);
    add_missing(who, "", {});
    if (std::string(who.monitor) == "interposed") {
      add_missing(who, "/leave_pinned:off", {"RDMALLOC_LEAVE_PINNED=off"});
      add_missing({who.title, "pinning", who.allocator, who.monitor}, "/ring of the domain's", {});
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  print_unmapping();
  print_missing();
  const bool met = judge_all();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return child_failed || (!met && !is_short_form()) ? EXIT_FAILURE : EXIT_SUCCESS;
}
