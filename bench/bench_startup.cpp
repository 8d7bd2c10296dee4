// Short programs from start to exit under each allocator, and how much memory the shortest of them
// pins.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/support/comparison.h"

using namespace rdmalloc::bench;

namespace {

constexpr double kLargestRatio = 1.05;
constexpr double kLargestRatioToGlibc = 1.6;  // of a program that never mallocs
constexpr double kMostPinned = 256 * 1024;

struct Program {
  std::string name;
  std::vector<std::string> command;
  int rounds;
};

Measure whole_process(const std::vector<std::string>& command, const Allocator& allocator) {
  return [=]() -> Cost {
    const Outcome outcome = run(command, allocator);
    if (!outcome.started) return {};
    return {outcome.cpu_s, outcome.wall_s};
  };
}

void compare(const Program& program, const Allocator& peer) {
  const bool is_jemalloc = peer.name == jemalloc().name;
  const bool is_glibc_barred = program.name == "true" && peer.name == "glibc";
  const bool barred = is_jemalloc || is_glibc_barred;
  add({.name = "startup/" + program.name,
       .peer = peer.name,
       .ours = whole_process(program.command, ours()),
       .theirs = whole_process(program.command, peer),
       .rounds = rounds(barred ? program.rounds : program.rounds / 4),
       .at_most = is_jemalloc       ? kLargestRatio
                  : is_glibc_barred ? kLargestRatioToGlibc
                                    : 0,
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
  std::vector<Program> found{{"true", {"/bin/true"}, 600}, {"sh", {"/bin/sh", "-c", ":"}, 600}};
  if (access("/usr/bin/python3", X_OK) == 0) {
    found.push_back({"python3", {"/usr/bin/python3", "-c", "pass"}, 120});
  } else if (access("/usr/bin/perl", X_OK) == 0) {
    found.push_back({"perl", {"/usr/bin/perl", "-e", "1"}, 300});
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
