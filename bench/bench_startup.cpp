// Short programs from start to exit under each allocator, and how much memory the shortest of them
// pins.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/support/comparison.h"

using namespace rdmalloc::bench;

namespace {

constexpr double kMostPinned = 256 * 1024;

struct Program {
  std::string name;
  std::vector<std::string> command;
  int rounds;
  double most_of_jemalloc;  // bars
  double most_of_glibc;     // 0: none
};

Measure whole_process(const std::vector<std::string>& command, const Allocator& allocator) {
  return [=]() -> Cost {
    const Outcome outcome = run(command, allocator);
    if (!outcome.started) return {};
    return {outcome.cpu_s, outcome.wall_s};
  };
}

void compare(const Program& program, const Allocator& peer) {
  double bar = 0;
  if (peer.name == jemalloc().name) bar = program.most_of_jemalloc;
  if (peer.name == glibc().name) bar = program.most_of_glibc;
  add({.name = "startup/" + program.name,
       .peer = peer.name,
       .ours = whole_process(program.command, ours()),
       .theirs = whole_process(program.command, peer),
       .rounds = rounds(bar != 0 ? program.rounds : program.rounds / 4),
       .at_most = bar,
       .in_mean = false});
}

// The report goes to standard output, to which the program writes nothing. True if within the bar;
// a run that pins nothing at all fails.
bool print_pinned(const Program& program) {
  const Outcome outcome = run(program.command, ours(), {"RDMALLOC_REPORT=/dev/stdout"});
  const double pinned = outcome.number("\"pinned_bytes\"");
  const bool met = pinned > 0 && pinned <= kMostPinned;
  printf("pinned by %s: %.0f KiB, held %.0f KiB, in %.0f regions; bar %.0f KiB %s\n",
         program.command[0].c_str(), pinned / 1024, outcome.number("\"held_bytes\"") / 1024,
         outcome.number("\"regions\""), kMostPinned / 1024, met ? "met" : "MISSED");
  return met;
}

std::vector<Program> programs() {
  // The shell mallocs a few KiB, /bin/true nothing.
  std::vector<Program> found{{"true", {"/bin/true"}, 600, 1.05, 1.6},
                             {"sh", {"/bin/sh", "-c", ":"}, 600, 1.05, 0}};
  if (access("/usr/bin/python3", X_OK) == 0) {
    found.push_back({"python3", {"/usr/bin/python3", "-c", "pass"}, 120, 1.02, 0});
  } else if (access("/usr/bin/perl", X_OK) == 0) {
    found.push_back({"perl", {"/usr/bin/perl", "-e", "1"}, 300, 1.05, 0});
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  for (const Program& program : programs()) {
    for (const Allocator& peer : peers()) compare(program, peer);
  }
  const int status = run_all(argc, argv);
  const bool met = print_pinned(programs()[0]);
  return met || is_short_form() ? status : EXIT_FAILURE;
}
