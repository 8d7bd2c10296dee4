#include "allocator/tools/study/verdict.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace rdmalloc::cli::study {
namespace {

constexpr uint64_t kMiB = 1U << 20U;

// A run with these figures, in MiB, and constant resident memory of `mean`.
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
  run.samples.peak_pinned = (peak - overflow) * kMiB;
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

Verdict verdict_of(const std::vector<Run>& runs, const Machine& machine = {}) {
  return judge(summarize(all_configurations(), runs), machine);
}

bool says(const Verdict& verdict, const std::string& words) {
  return std::ranges::any_of(verdict.answers, [&](const std::string& answer) {
    return answer.find(words) != std::string::npos;
  });
}

// Three runs: with these figures, and slightly below and above them.
void add(std::vector<Run>& runs, const Run& run, double apart = 0.005) {
  for (const double factor : {1 / (1 + apart), 1.0, 1 + apart}) {
    Run one = run;
    one.seconds *= factor;
    one.user_seconds *= factor;
    one.samples.peak_resident =
        static_cast<uint64_t>(static_cast<double>(run.samples.peak_resident) * factor);
    runs.push_back(one);
  }
}

Run with_cpu(Run run, double user_seconds) {
  run.user_seconds = user_seconds;
  return run;
}

}  // namespace

TEST_CASE("a study without a run that succeeded has no answer but that") {
  CHECK(judge({}, {}).answers.empty());
  const Verdict verdict = verdict_of({run_of("glibc", 1, 100, 0, false)});
  REQUIRE(verdict.answers.size() == 1);
  CHECK(says(verdict, "No run succeeded under: glibc; jemalloc; rdmalloc, not pinned"));
  CHECK(!verdict.smallest_cap_without_loss);
}

TEST_CASE("the cost of never returning memory is given against glibc and the best of the others") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1, 100));
  add(runs, run_of("jemalloc", 1, 80));
  add(runs, ours("rdmalloc", 1, 120, 100));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "20 % more memory at its peak than glibc"));
  CHECK(says(verdict, "50 % more memory at its peak than jemalloc"));
  CHECK(says(verdict, "1.20 times what is live"));
}

TEST_CASE("a lower peak is called lower, and lost time lost") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1, 200));
  add(runs, ours("rdmalloc-unpinned", 1, 100, 90));
  add(runs, ours("rdmalloc", 1.5, 100, 90));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "50 % lower than under glibc"));
  CHECK(says(verdict, "Time: pinning costs 50 %, between "));
}

TEST_CASE("what the repeats do not tell apart is not claimed, and said to be so") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1.0, 100), 0.2);
  add(runs, ours("rdmalloc-unpinned", 1.0, 115, 100), 0.2);
  add(runs, ours("rdmalloc", 1.1, 115, 100), 0.2);
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict,
             "Time: what pinning costs against rdmalloc, not pinned (1.10 s, 1.00 s) "
             "cannot be told: measured 10 % more, between "));
  CHECK(says(verdict, " repeats would tell (--repeats), or fewer on a quieter machine"));
  CHECK(says(verdict,
             "Whether never returning memory costs this program more at its peak than "
             "glibc cannot be told: measured 15 % more, between "));
}

TEST_CASE("a difference comes with its interval, which contains it") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1.0, 100), 0.01);
  add(runs, ours("rdmalloc", 1.5, 100, 90), 0.01);
  CHECK(says(verdict_of(runs),
             "Time: rdmalloc costs 50 %, between 47 % more and 53 % more, against "
             "glibc (1.50 s, 1.00 s)"));
}

TEST_CASE("nothing is concluded from fewer than three runs") {
  const Verdict verdict =
      verdict_of({run_of("glibc", 1, 100), run_of("glibc", 1, 100), ours("rdmalloc", 2, 150, 100),
                  ours("rdmalloc", 2, 150, 100)});
  CHECK(says(verdict,
             "Time: what rdmalloc costs against glibc (2.00 s, 1.00 s) cannot be told "
             "from fewer than three runs"));
  CHECK(says(verdict,
             "cannot be told from fewer than three runs (--repeats) (150 MiB against "
             "100 MiB)"));
  CHECK(!says(verdict, "more memory at its peak"));
  CHECK(!says(verdict, " costs 100 %"));
}

TEST_CASE("nothing is concluded of time from runs below a tenth of a second") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 0.004, 100));
  add(runs, ours("rdmalloc", 0.012, 100, 90));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "cannot be told of runs below 0.1 s: give the program more to do"));
  CHECK(!says(verdict, " costs 200 %"));
}

TEST_CASE("nothing is concluded of memory from less than some MiB") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1, 1));
  add(runs, ours("rdmalloc", 1, 3, 2));
  CHECK(says(verdict_of(runs), "cannot be told of less than 4 MiB"));
}

TEST_CASE("nothing is concluded about pinning where nothing was pinned") {
  std::vector<Run> runs;
  add(runs, ours("rdmalloc-unpinned", 1, 100, 90));
  add(runs, ours("rdmalloc", 0.7, 100, 90, 100));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "Nothing was pinned: what pinning costs cannot be told here"));
  CHECK(!says(verdict, "saves"));
}

TEST_CASE("CPU time is given beside wall time, because a waiting program takes no longer") {
  std::vector<Run> runs;
  add(runs, with_cpu(run_of("glibc", 1, 100), 0.2));
  add(runs, with_cpu(ours("rdmalloc", 1, 100, 90), 0.3));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "CPU time: 50 % more, between "));
  CHECK(says(verdict, " (0.300 s, 0.200 s)."));
}

TEST_CASE("the machine's load is given, and what follows from it") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1, 100));
  Machine machine;
  machine.cores = 4;
  machine.load = 0.3;
  CHECK(says(verdict_of(runs, machine), "the machine's load was 0.3 on 4 processors."));
  machine.load = 7.25;
  CHECK(says(verdict_of(runs, machine), "was 7.2 on 4 processors: other work used some of them"));
}

TEST_CASE("the cap that is enough is the smallest without overflow or loss of time") {
  std::vector<Run> runs;
  add(runs, ours("rdmalloc", 1, 100, 70));
  add(runs, ours("rdmalloc-50M", 1.2, 100, 70, 50));
  add(runs, ours("rdmalloc-80M", 1, 80, 70));
  const Verdict verdict = verdict_of(runs);
  CHECK(verdict.smallest_cap_without_loss == 80 * kMiB);
  CHECK(says(verdict, "A cap of 80 MiB is enough"));
  CHECK(
      says(verdict, "A cap of 50 MiB leaves 50 MiB not pinned, and the program takes 20 % longer"));
}

TEST_CASE("a cap without overflow that takes longer does lose something") {
  std::vector<Run> runs;
  add(runs, ours("rdmalloc", 1, 100, 70));
  add(runs, ours("rdmalloc-80M", 3, 80, 70));
  const Verdict verdict = verdict_of(runs);
  CHECK(!verdict.smallest_cap_without_loss);
  CHECK(says(verdict, "No cap that was tried is enough"));
  CHECK(says(verdict, "A cap of 80 MiB has room for all, and the program takes 200 % longer"));
}

TEST_CASE("a cap that no counters were seen of is not said to be enough") {
  std::vector<Run> runs;
  add(runs, ours("rdmalloc", 1, 100, 70));
  add(runs, run_of("rdmalloc-80M", 1, 80));
  const Verdict verdict = verdict_of(runs);
  CHECK(!verdict.smallest_cap_without_loss);
  CHECK(says(verdict, "what could not be pinned is not known"));
}

TEST_CASE("memory that could not be pinned without a cap is reported") {
  const Verdict verdict = verdict_of({ours("rdmalloc", 1, 100, 70, 93)});
  CHECK(says(verdict, "93 MiB could not be pinned"));
}

TEST_CASE("the tiles have the verdicts on memory and time, and the cap to set") {
  std::vector<Run> runs;
  add(runs, run_of("glibc", 1, 200));
  add(runs, ours("rdmalloc", 1.5, 100, 70));
  add(runs, ours("rdmalloc-50M", 1.5, 100, 70, 50));
  add(runs, ours("rdmalloc-80M", 1.5, 80, 70));
  const Verdict verdict = verdict_of(runs);
  CHECK(verdict.memory.verdict == "50 % less than glibc");
  CHECK(
      verdict.memory.figures.starts_with("Peak 100 MiB (rdmalloc, pinned) against 200 MiB (glibc). "
                                         "Measured between 51 % less "));
  CHECK(verdict.time.verdict == "50 % more than glibc");
  CHECK(verdict.time.figures.starts_with("1.50 s (rdmalloc, pinned) against 1.00 s (glibc)."));
  CHECK(verdict.cap.verdict == "RDMALLOC_CAP=80M");
  CHECK(verdict.cap.figures.starts_with(
      "All stays pinned; no loss of time can be told (measured as much, between "));
}

TEST_CASE("the tiles say what cannot be told, and why") {
  std::vector<Run> runs;
  add(runs, run_of("jemalloc", 1, 100), 0.2);
  add(runs, ours("rdmalloc", 1.1, 115, 100), 0.2);
  const Verdict open = verdict_of(runs);
  for (const Tile& tile : {open.memory, open.time}) {
    CHECK(tile.verdict == "cannot be told");
    CHECK(tile.figures.find(" (jemalloc). Nothing can be told: measured 1") != std::string::npos);
    CHECK(tile.figures.find(" repeats would tell (--repeats)") != std::string::npos);
  }
  CHECK(open.cap.verdict == "none");
  CHECK(open.cap.figures == "No runs with a cap to judge by (--caps).");
  const Verdict few = verdict_of({run_of("glibc", 1, 1), ours("rdmalloc", 2, 3, 2)});
  CHECK(few.memory.figures.ends_with(" Nothing can be told of less than 4 MiB."));
  CHECK(few.time.figures.ends_with(" Nothing can be told from fewer than three runs (--repeats)."));
  CHECK(verdict_of({}).memory.verdict == "cannot be told");
}

TEST_CASE("a cap that is not whole MiB is rounded up for its tile, and without one there is none") {
  const std::vector<Configuration> configurations = {
      configurations_of({kOurs}).back(), capped(kOurs, {"76804K", 75 * kMiB + 4096, false}, 0)};
  std::vector<Run> runs;
  add(runs, ours("rdmalloc", 1, 100, 70));
  add(runs, ours(configurations[1].name, 1, 75, 70));
  CHECK(judge(summarize(configurations, runs), {}).cap.verdict == "RDMALLOC_CAP=76M");
  runs.resize(3);
  add(runs, ours(configurations[1].name, 1, 100, 70, 25));
  const Verdict verdict = judge(summarize(configurations, runs), {});
  CHECK(verdict.cap.verdict == "none");
  CHECK(verdict.cap.figures == "No cap that was tried is enough.");
}

TEST_CASE("failed runs are in no figure") {
  std::vector<Run> runs = {run_of("glibc", 9, 900, 0, false), run_of("rdmalloc", 9, 900, 0, false)};
  add(runs, run_of("glibc", 1, 100));
  add(runs, ours("rdmalloc", 1, 110, 100));
  const Verdict verdict = verdict_of(runs);
  CHECK(says(verdict, "10 % more memory at its peak than glibc"));
}

TEST_CASE("a program that is over before it is sampled gets answers without figures of memory") {
  Run quick = run_of("glibc", 0.001, 0);
  quick.samples.series.clear();
  Run our_quick = quick;
  our_quick.configuration = "rdmalloc";
  const Verdict verdict = verdict_of({quick, our_quick});
  CHECK(says(verdict, "No peak was seen: the program is over too soon."));
  CHECK(!says(verdict, "at its peak"));
  CHECK(!says(verdict, "nan"));
}

}  // namespace rdmalloc::cli::study
