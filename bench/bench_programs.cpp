// Whole programs that request far more memory than they touch, or whose blocks grow: peak memory
// and CPU time under rdmalloc against glibc.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>
#include <filesystem>

#include "bench/support/contest.h"
#include "bench/support/match.h"
#include "bench/support/sample_text.h"

using namespace rdmalloc::bench;

namespace {

constexpr double kMebibyte = 1 << 20;
constexpr size_t kInputBytes = 1'000'000;
constexpr double kMostCpu = 1.05;

// The bar on memory: this many times glibc's plus this many bytes.
struct MemoryBar {
  double times;
  double more_bytes;
};
constexpr MemoryBar kCompressors = {1.03, 3 * kMebibyte};
constexpr MemoryBar kGrowth = {1.10, 0};

struct Program {
  Match match;
  MemoryBar bar;
};
std::deque<Program> programs;  // Google Benchmark keeps references

const Figure kPeak = [](const Outcome& outcome) { return outcome.peak_bytes; };
const Figure kCpu = [](const Outcome& outcome) { return outcome.cpu_s * 1e9; };
const Figure kWall = [](const Outcome& outcome) { return outcome.wall_s * 1e9; };

struct Input {
  std::filesystem::path folder;
  std::string file;

  Input() {
    char name[] = "/tmp/bench_programs.XXXXXX";
    if (mkdtemp(name) == nullptr) return;
    folder = name;
    file = folder / "text";
    if (!write_sample_text(file, kInputBytes)) file.clear();
  }
  ~Input() {
    std::error_code ignored;
    if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
};

// command[0] is searched for in PATH; `piped` as in run().
void add_program(const std::string& name, std::vector<std::string> command, const MemoryBar& bar,
                 int full_rounds, const std::string& piped = {}) {
  const std::string program = find_program(command[0]);
  if (program.empty()) {
    printf("skipped: programs/%s: %s is not installed\n", name.c_str(), command[0].c_str());
    return;
  }
  command[0] = program;
  Match match{"programs/" + name, {}, rounds(full_rounds)};
  for (const Allocator& allocator : {ours(), glibc()}) {
    match.sides.push_back({allocator.name, [=] {
                             Outcome outcome = run(command, allocator, {}, piped);
                             // Freed, because otherwise this process grows, and with it the peaks
                             // that its children report.
                             std::string().swap(outcome.output);
                             return outcome;
                           }});
  }
  add(programs.emplace_back(Program{std::move(match), bar}).match, kCpu);
}

void add_compressors(const std::string& file) {
  add_program("xz -9", {"xz", "-9", "-c", file}, kCompressors, 9);
  add_program("zstd -22", {"zstd", "-q", "--ultra", "-22", "-c", file}, kCompressors, 9);
  // From a pipe the length is unknown: a window of 128 MiB, and tables to match.
  if (!is_short_form())
    add_program("zstd -22, piped", {"zstd", "-q", "--ultra", "-22", "-c"}, kCompressors, 5, file);
  // Short runs, so the ratios scatter.
  add_program("zstd --long", {"zstd", "-q", "-3", "--long=27", "-c", file}, kCompressors, 41);
  add_program("zstd --long, piped", {"zstd", "-q", "-3", "--long=27", "-c"}, kCompressors, 41,
              file);
}

// Eight blocks that grow together by realloc: the bad case of `rdmalloc study`.
void add_growth() {
  const std::string script = BENCH_STUDY_EXAMPLES "/growth.py";
  add_program("growth", {"python3", script, is_short_form() ? "24" : "384"}, kGrowth, 11);
}

void print_table() {
  printf("\n%-28s %11s %11s %10s %10s %8s %8s\n", "program", "ours MiB", "glibc MiB", "ours ms",
         "glibc ms", "CPU r.", "wall r.");
  for (const Program& program : programs) {
    const Match& match = program.match;
    if (!match.was_run()) continue;
    printf("%-28s %11.1f %11.1f %10.2f %10.2f %8.3f %8.3f\n", match.name.c_str(),
           match.figure(0, kPeak) / kMebibyte, match.figure(1, kPeak) / kMebibyte,
           match.figure(0, kCpu) * 1e-6, match.figure(1, kCpu) * 1e-6, match.ratio(0, 1, kCpu),
           match.ratio(0, 1, kWall));
  }
  printf("\n");
}

bool judge_program(const Program& program) {
  const Match& match = program.match;
  if (!match.was_run()) return true;
  const double most = match.figure(1, kPeak) * program.bar.times + program.bar.more_bytes;
  const bool memory = judge(match.name + ": peak MiB", {match.figure(0, kPeak) / kMebibyte},
                            Limit::kAtMost, most / kMebibyte);
  return judge(match.name + ": CPU against glibc", {match.ratio(0, 1, kCpu)}, Limit::kAtMost,
               kMostCpu) &&
         memory;
}

}  // namespace

int main(int argc, char** argv) {
  if (!is_usable(ours())) return EXIT_FAILURE;
  const Input input;
  if (input.file.empty()) {
    fprintf(stderr, "bench_programs: cannot write a file below /tmp\n");
    return EXIT_FAILURE;
  }
  add_compressors(input.file);
  add_growth();
  const bool ran = run_matches(argc, argv);
  print_table();
  bool met = true;
  for (const Program& program : programs) met &= judge_program(program);
  return status_of(ran, met);
}
