// Messages from fresh buffers: malloc, fill, send by key through io_uring, free. Ours looks the key
// up; the peers register each buffer, or ask UCX's registration cache on top of glibc's malloc. The
// sink is /dev/null, so that only the path there is measured: a network card would read without the
// processor.
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <string>
#include <vector>

#include "bench/support/can_lock.h"
#include "bench/support/comparison.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kLocked = size_t{512} << 20;

// Registrations per message in the last run of each, by row of the table.
std::map<std::string, double> registrations;
std::vector<std::string> rows;

// Fails if ours registered anything: the heap is warm.
Measure cost(const std::string& row, const std::string& bytes, const std::string& kind,
             const Allocator& allocator) {
  return [=]() -> Cost {
    const Outcome outcome =
        run(sibling("bench_device_workload", {"message", bytes, kind}), allocator);
    const double messages = outcome.number("messages");
    const double made = outcome.number("registrations");
    if (!outcome.started || messages < 1) return {};
    if (!registrations.contains(row)) rows.push_back(row);
    registrations[row] = made / messages;
    if (kind == "lookup" && made != 0) {
      fprintf(stderr, "%s: %.0f registrations in the steady state\n", row.c_str(), made);
      return {};
    }
    return {outcome.number("cpu_ns") * 1e-9 / messages,
            outcome.number("wall_ns") * 1e-9 / messages};
  };
}

std::string title(size_t kibibytes) {
  if (kibibytes == 0) return "mixed";
  return kibibytes < 1024 ? std::to_string(kibibytes) + "K"
                          : std::to_string(kibibytes / 1024) + "M";
}

void compare(size_t kibibytes, const std::string& kind, const Allocator& peer) {
  const std::string name = "message/" + title(kibibytes);
  const std::string bytes = std::to_string(kibibytes << 10);
  const std::string peer_name = kind + "/" + peer.name;
  add({.name = name,
       .peer = peer_name,
       .ours = cost(name + " rdm_lookup", bytes, "lookup", ours()),
       .theirs = cost(name + " " + peer_name, bytes, kind, peer),
       .rounds = rounds(7),
       .at_most = 0,
       .in_mean = true});
}

void print_registrations() {
  printf("\nregistrations per message in the steady state\n");
  for (const std::string& row : rows) printf("%-34s %8.3f\n", row.c_str(), registrations[row]);
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  if (!can_lock(kLocked)) return kSkipped;
  const bool has_jemalloc = is_usable(jemalloc());
  for (const size_t kibibytes : {64, 256, 1024, 4096, 16384, 65536, 0}) {
    if (is_short_form() && kibibytes > 1024) continue;
    compare(kibibytes, "each", glibc());
    if (has_jemalloc) compare(kibibytes, "each", jemalloc());
    if (BENCH_HAS_UCX) compare(kibibytes, "ucx", glibc());
  }
  if (!BENCH_HAS_UCX) fprintf(stderr, "skipped: UCX: built without libucx-dev\n");
  const int status = run_all(argc, argv);
  print_registrations();
  return status;
}
