#include "allocator/cli/study/verdict.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace rdmalloc::cli::study {
namespace {

constexpr uint64_t kMiB = 1U << 20U;

// A run with these figures, in MiB, and a straight line of resident memory at `mean`.
Run run_of(const std::string& configuration, double seconds, uint64_t peak, uint64_t mean = 0,
           bool ok = true) {
  Run run;
  run.configuration = configuration;
  run.seconds = seconds;
  run.ok = ok;
  run.samples.peak_resident = peak * kMiB;
  const uint64_t resident = (mean == 0 ? peak : mean) * kMiB;
  run.samples.series = {{0, resident}, {seconds, resident}};
  return run;
}

Run ours(const std::string& configuration, double seconds, uint64_t peak, uint64_t live,
         uint64_t overflow = 0) {
  Run run = run_of(configuration, seconds, peak);
  run.samples.has_counters = true;
  run.samples.peak_live = live * kMiB;
  run.samples.peak_held = peak * kMiB;
  run.samples.peak_overflow = overflow * kMiB;
  return run;
}

const Allocator kGlibc{"glibc", "", false};
const Allocator kJemalloc{"jemalloc", "/lib/libjemalloc.so.2", false};
const Allocator kOurs{"rdmalloc", "/lib/librdmalloc.so.0", true};

std::vector<Configuration> all_configurations() {
  std::vector<Configuration> all = configurations_of({kGlibc, kJemalloc, kOurs});
  all.push_back(capped(kOurs, {"50M", 50 * kMiB, false}, 0));
  all.push_back(capped(kOurs, {"80M", 80 * kMiB, false}, 0));
  return all;
}

Verdict verdict_of(const std::vector<Run>& runs) {
  return judge(summarize(all_configurations(), runs));
}

bool says(const Verdict& verdict, const std::string& words) {
  return std::ranges::any_of(verdict.answers, [&](const std::string& answer) {
    return answer.find(words) != std::string::npos;
  });
}

// Twice, a little apart.
void add(std::vector<Run>& runs, Run run) {
  runs.push_back(run);
  run.seconds *= 1.01;
  run.samples.peak_resident += run.samples.peak_resident / 200;
  runs.push_back(run);
}

}  // namespace

TEST_CASE("a study without a run that succeeded has no answer but that") {
  CHECK(judge({}).answers.empty());
  const Verdict verdict = verdict_of({run_of("glibc", 1, 100, 0, false)});
  REQUIRE(verdict.answers.size() == 1);
  CHECK(says(verdict, "No run succeeded under: glibc; jemalloc; rdmalloc, not pinned"));
  CHECK(!verdict.smallest_cap_without_loss);
}

TEST_CASE("what never returning costs is told against glibc and the best of the others") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1, 100));
  add(runs, run_of("jemalloc", 1, 80));
  add(runs, ours("rdmalloc", 1, 120, 100));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "20 % more memory at its peak than glibc"));
  CHECK(says(verdict, "50 % more memory at its peak than jemalloc"));
  CHECK(says(verdict, "1.20 times what is live"));
}

TEST_CASE("a lower peak is told as lower, and time that is lost as lost") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1, 200));
  add(runs, ours("rdmalloc-unpinned", 1, 100, 90));
  add(runs, ours("rdmalloc", 1.5, 100, 90));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "50 % lower than under glibc"));
  CHECK(says(verdict, "Pinning costs 50 % time"));
}

TEST_CASE("where the repeats of both sides overlap no difference is claimed") {
  const std::vector<Run> runs{run_of("glibc", 1.0, 100),
                              run_of("glibc", 1.4, 130),
                              ours("rdmalloc-unpinned", 1.1, 120, 100),
                              ours("rdmalloc-unpinned", 1.3, 120, 100),
                              ours("rdmalloc", 1.2, 120, 100),
                              ours("rdmalloc", 1.5, 125, 100)};
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "nothing that can be seen at its peak against glibc"));
  CHECK(says(verdict, "Pinning costs no time that can be seen"));
  CHECK(!says(verdict, "measured once"));
}

TEST_CASE("one repeat is told as one repeat") {
  const Verdict verdict = verdict_of({run_of("glibc", 1, 100), ours("rdmalloc", 2, 120, 100)});
  CHECK(says(verdict, "measured once"));
  CHECK(says(verdict, "costs 100 % time"));
  const Verdict close = verdict_of({run_of("glibc", 1, 100), ours("rdmalloc", 1.03, 103, 100)});
  CHECK(says(close, "costs no time that can be seen"));
  CHECK(says(close, "nothing that can be seen at its peak"));
}

TEST_CASE("the cap that loses nothing is the smallest without overflow or loss of time") {
  std::vector<Run> runs;
  add(runs, ours("rdmalloc", 1, 100, 70));
  add(runs, ours("rdmalloc-50M", 1.2, 100, 70, 50));
  add(runs, ours("rdmalloc-80M", 1, 80, 70));
  const Verdict verdict = verdict_of(runs);
  CHECK(verdict.smallest_cap_without_loss == 80 * kMiB);
  CHECK(says(verdict, "A cap of 80 MiB loses nothing"));
  CHECK(
      says(verdict, "A cap of 50 MiB leaves 50 MiB not pinned, and the program takes 20 % longer"));
}

TEST_CASE("a cap without overflow that takes longer does lose something") {
  std::vector<Run> runs;
  add(runs, ours("rdmalloc", 1, 100, 70));
  add(runs, ours("rdmalloc-80M", 3, 80, 70));
  const Verdict verdict = verdict_of(runs);
  CHECK(!verdict.smallest_cap_without_loss);
  CHECK(says(verdict, "No cap that was tried loses nothing"));
  CHECK(says(verdict, "A cap of 80 MiB has room for all, and the program takes 200 % longer"));
}

TEST_CASE("a cap that no counters were seen of is not said to lose nothing") {
  std::vector<Run> runs;
  add(runs, ours("rdmalloc", 1, 100, 70));
  add(runs, run_of("rdmalloc-80M", 1, 80));
  const Verdict verdict = verdict_of(runs);
  CHECK(!verdict.smallest_cap_without_loss);
  CHECK(says(verdict, "what could not be pinned is not known"));
}

TEST_CASE("what could not be pinned without a cap is told") {
  const Verdict verdict = verdict_of({ours("rdmalloc", 1, 100, 70, 93)});
  CHECK(says(verdict, "93 MiB could not be pinned"));
}

TEST_CASE("failed runs are in no figure") {
  const Verdict verdict =
      verdict_of({run_of("glibc", 1, 100), run_of("glibc", 9, 900, 0, false),
                  ours("rdmalloc", 1, 110, 100), run_of("rdmalloc", 9, 900, 0, false)});
  CHECK(says(verdict, "10 % more memory at its peak than glibc"));
}

TEST_CASE("a program that is over before it is sampled gets answers without figures of memory") {
  Run quick = run_of("glibc", 0.001, 0);
  quick.samples.series.clear();
  Run our_quick = quick;
  our_quick.configuration = "rdmalloc";
  const Verdict verdict = verdict_of({quick, our_quick});
  CHECK(!says(verdict, "at its peak"));
  CHECK(!says(verdict, "nan"));
}

}  // namespace rdmalloc::cli::study
