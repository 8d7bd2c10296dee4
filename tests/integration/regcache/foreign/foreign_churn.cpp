// Threads that change memory in every way, at random, while all of them register it, send it,
// receive into it and register it again: no byte is ever stale.
//
//   foreign_churn libc|raw|raw_ends MONITOR ROUNDS SECONDS SEED THREADS [PLUGIN]
//
// raw: system calls that no function can intercept; raw_ends: only for unmapping and dropping.
// Exits with status 1 for stale bytes, and with another status for any other error.
#include <thread>
#include <vector>

#include "tests/integration/regcache/foreign/foreign_churn_thread.h"

namespace {

const size_t kRoom = probe::Ranges::kPages * probe::kPage;
const size_t kLittle = 8 * kRoom;

probe::ChurnShared shared;

// No references are out, so every registration stays for its next user.
void judge(const char* monitor, const rdm_stats& books) {
  probe::Verdict& verdict = shared.staleness.verdict();
  if (strcmp(monitor, "none") == 0) {
    if (books.foreign_regions != 0) verdict.broken("unwatched memory was kept");
  } else if ((books.foreign_hits < 1000 && books.foreign_hits < shared.rounds / 20) ||
             books.foreign_invalidations == 0) {
    verdict.broken("%lu hits and %lu invalidations in %lu rounds: nothing was tried",
                   books.foreign_hits, books.foreign_invalidations, shared.rounds.load());
  }
  if (shared.rounds < probe::ChurnShared::kFewestRounds)
    verdict.broken("%lu rounds are too few", shared.rounds.load());
}

void run_threads(uint64_t rounds, uint64_t seconds) {
  const uint64_t end_ns = probe::now_ns() + seconds * 1'000'000'000;
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < shared.threads; ++i) {
    workers.emplace_back([=] { probe::Churn(shared, i).run(rounds / shared.threads, end_ns); });
  }
  for (std::thread& worker : workers) worker.join();
}

void close_all() {
  for (probe::ForeignDevice* device : shared.devices) {
    if (device->close() != RDM_OK) {
      shared.staleness.verdict().broken("closing: %s", probe::foreign().last_error());
    }
    delete device;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "";
  using probe::MemoryCalls;
  const MemoryCalls made(strcmp(how, "raw") == 0        ? MemoryCalls::kAll
                         : strcmp(how, "raw_ends") == 0 ? MemoryCalls::kEnding
                                                        : MemoryCalls::kNone);
  shared.calls = &made;
  const char* monitor = argc > 2 ? argv[2] : "any";
  const uint64_t rounds = probe::argument(argc, argv, 3, 100000);
  const uint64_t seconds = probe::argument(argc, argv, 4, 10);
  shared.seed = probe::argument(argc, argv, 5, 1);
  shared.threads = probe::argument(argc, argv, 6, 3);
  shared.plugin = argc > 7 ? argv[7] : nullptr;
  if (shared.threads > probe::ChurnShared::kMostThreads) probe::skip("too many threads");
  alarm(static_cast<unsigned>(seconds) + 60);

  const uint64_t before = probe::pinned_by_kernel();
  // One with defaults, and one in which threads evict each other's registrations.
  shared.devices[0] = new probe::ForeignDevice(kRoom, {}, shared.staleness.verdict());
  shared.devices[1] =
      new probe::ForeignDevice(kRoom, {kLittle, 12, 1000, 0, 0}, shared.staleness.verdict());
  probe::need_monitor(monitor);
  run_threads(rounds, seconds);
  const rdm_stats books = probe::stats();
  printf(
      "seed %lu: %lu rounds, %lu stale, %lu hits, %lu misses, %lu evictions, %lu invalidations, "
      "%lu poached, %lu libraries\n",
      shared.seed, shared.rounds.load(), shared.staleness.stale(), books.foreign_hits,
      books.foreign_misses, books.foreign_evictions, books.foreign_invalidations,
      shared.poached.load(), shared.libraries.load());
  judge(probe::foreign().monitor(nullptr), books);
  close_all();
  if (!probe::comes_to(before, probe::pinned_by_kernel)) {
    shared.staleness.verdict().broken("%lu bytes stay pinned", probe::pinned_by_kernel() - before);
  }
  return shared.staleness.status();
}
