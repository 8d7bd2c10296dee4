// A message of 64 MiB whose memory is registered for it alone: all at once (register, transfer,
// deregister), in pieces that are registered while others are in transfer, and from memory
// registered beforehand, in one run. Wall time, because that is what overlapping saves.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "bench/pieces/message.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/contest.h"

using namespace rdmalloc::bench;

namespace {

constexpr size_t kLocked = size_t{512} << 20;
constexpr size_t kKibibytes[] = {256, 1024, 4096, 16384};
constexpr unsigned kHeld[] = {1, 2, 4};

size_t message_length() { return size_t{is_short_form() ? 16U : 64U} << 20; }

// The sides of a contest, in order.
struct Way {
  std::string name;
  double (*run)(Message& message, size_t piece, unsigned most);
  size_t piece = 0;
  unsigned most = 0;
};

enum { kRegistered, kWhole, kRegistering, kFirstInPieces };

std::vector<Way> ways() {
  std::vector<Way> all = {
      {"registered before",
       [](Message& message, size_t, unsigned) { return message.registered_before(); }},
      {"whole", [](Message& message, size_t, unsigned) { return message.whole(); }},
      {"register and deregister",
       [](Message& message, size_t, unsigned) { return message.no_transfer(); }}};
  for (const unsigned most : kHeld) {
    for (const size_t kibibytes : kKibibytes) {
      const std::string size = kibibytes < 1024 ? std::to_string(kibibytes) + "K"
                                                : std::to_string(kibibytes >> 10) + "M";
      all.push_back(
          {"pieces of " + size + ", " + std::to_string(most) + " out",
           [](Message& message, size_t piece, unsigned out) { return message.pieces(piece, out); },
           kibibytes << 10, most});
    }
  }
  // What the pieces would take if registration cost nothing.
  all.push_back({"registered before, pieces of 1M, 2 out",
                 [](Message& message, size_t piece, unsigned out) {
                   return message.registered_before(piece, out);
                 },
                 size_t{1} << 20, 2});
  return all;
}

struct Case {
  const char* title;
  Pages pages;
  std::unique_ptr<Message> message = nullptr;  // created when its turn comes
  std::vector<Way> ways = {};
  Contest contest = {};

  Slice slice(size_t side) {
    if (message == nullptr) message = std::make_unique<Message>(pages, message_length());
    const Way& way = ways[side];
    if (contest.measured.empty() && side != kRegistering) {
      message->start_proof();
      way.run(*message, way.piece, way.most);
      message->end_proof();
    }
    message->prepare();
    return {way.run(*message, way.piece, way.most), true};
  }
};

// A list, because Google Benchmark keeps references.
std::list<Case> cases;

void add_cases() {
  cases.push_back({"send, pages of 4 KiB", Pages::kSmall});
  cases.push_back({"send, huge pages", Pages::kHuge});
  cases.push_back({"receive, pages not there yet", Pages::kFresh});
  constexpr const char* kNames[] = {"pieces/send", "pieces/send_thp", "pieces/receive_fresh"};
  for (Case& what : cases) {
    what.ways = ways();
    what.contest.name = kNames[static_cast<size_t>(what.pages)];
    for (const Way& way : what.ways) what.contest.sides.push_back(way.name);
    what.contest.rounds = rounds(31);
    what.contest.slice = [&what](size_t side) { return what.slice(side); };
    add(what.contest, kWhole);
  }
}

double least(const Contest& contest, size_t side) {
  double ns = contest.measured.front().ns[side];
  for (const Contest::Round& round : contest.measured) ns = std::min(ns, round.ns[side]);
  return ns;
}

// Prints the minimum of the wall times, too: two threads overlap only if both have a processor.
void print_table(const Case& what) {
  const Contest& contest = what.contest;
  if (contest.measured.empty()) return;
  printf("\n%s: wall ms of %zu MiB\n%-40s %8s %10s %8s %10s %16s\n", what.title,
         message_length() >> 20, "", "median", "of whole's", "least", "of whole's",
         "of registered's");
  for (size_t i = 0; i < contest.sides.size(); ++i) {
    printf("%-40s %8.3f %10.3f %8.3f %10.3f %16.3f\n", contest.sides[i].c_str(),
           contest.time(i) * 1e-6, contest.ratio(i, kWhole), least(contest, i) * 1e-6,
           least(contest, i) / least(contest, kWhole),
           least(contest, i) / least(contest, kRegistered));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!can_lock(kLocked)) return kSkipped;
  add_cases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  for (const Case& what : cases) print_table(what);
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return EXIT_SUCCESS;
}
