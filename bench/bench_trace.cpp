// The cost of recording a program's allocations: whole processes, plain, under our recorder, and
// under heaptrack's, which also records backtraces. Each writes its own file; compressing and
// interpreting are excluded for both.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/support/comparison.h"

using namespace rdmalloc::bench;

namespace {

namespace fs = std::filesystem;

constexpr double kMostSlower = 2.0;
constexpr const char* kHeaptrack = "/usr/lib/heaptrack/libheaptrack_preload.so";
// Enough for everything a program does here: beyond the limit, recording would stop and cost
// nothing.
constexpr const char* kLimit = "RDMTRACE_LIMIT=8589934592";

struct Program {
  std::string name;
  std::vector<std::string> command;
  int rounds;
  bool barred;  // otherwise for information only: it does nothing but call malloc
};

const fs::path& folder() {
  static const fs::path made = [] {
    std::string name = fs::temp_directory_path() / "bench_trace-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) exit(EXIT_FAILURE);
    return fs::path(name);
  }();
  return made;
}

// A measurement that deletes its file, so that the next has the disk to itself.
Measure measured(const Program& program, const Allocator& recorder,
                 const std::vector<std::string>& environment) {
  return [=]() -> Cost {
    fs::create_directory(folder() / "raw");
    const Outcome outcome = run(program.command, recorder, environment);
    const bool wrote = recorder.library.empty() || !fs::is_empty(folder() / "raw");
    fs::remove_all(folder() / "raw");
    if (!outcome.started || !wrote) return {};
    return {outcome.cpu_s, outcome.wall_s};
  };
}

void compare(const Program& program, bool has_heaptrack) {
  const std::string raw = folder() / "raw";
  const Measure plain = measured(program, glibc(), {});
  const Measure ours =
      measured(program, {"recorder", RDMALLOC_RECORDER, ""}, {"RDMTRACE_FOLDER=" + raw, kLimit});
  add({.name = "trace/" + program.name,
       .peer = "plain",
       .ours = ours,
       .theirs = plain,
       .rounds = rounds(program.rounds),
       .at_most = program.barred ? kMostSlower : 0,
       .in_mean = program.barred});
  if (!has_heaptrack) return;
  const Measure theirs = measured(program, {"heaptrack", kHeaptrack, ""},
                                  {"DUMP_HEAPTRACK_OUTPUT=" + raw + "/heaptrack"});
  add({.name = "trace/" + program.name,
       .peer = "heaptrack",
       .ours = ours,
       .theirs = theirs,
       .rounds = rounds(program.rounds / 2 + 1),
       .at_most = program.barred ? 1.0 : 0,
       .in_mean = program.barred});
  add({.name = "heaptrack/" + program.name,
       .peer = "of plain",
       .ours = theirs,
       .theirs = plain,
       .rounds = rounds(program.rounds / 2 + 1),
       .at_most = 0,
       .in_mean = program.barred});
}

// The compiler proper, because heaptrack does not follow a driver's children. Empty if there is
// none.
std::string compiler() {
  FILE* asked = popen("g++ -print-prog-name=cc1plus 2>/dev/null", "r");
  if (asked == nullptr) return {};
  std::string path(4096, '\0');
  if (fgets(path.data(), static_cast<int>(path.size()), asked) == nullptr) path.clear();
  pclose(asked);
  return path.substr(0, path.find('\n'));
}

// Preprocessed source for it to compile.
fs::path source() {
  const fs::path file = folder() / "a.ii";
  std::ofstream(folder() / "a.cpp") << "#include <map>\n#include <string>\n#include <vector>\n"
                                       "std::map<std::string, std::vector<std::string>> all;\n"
                                       "int main() { all[\"a\"].push_back(\"b\"); }\n";
  const std::string command =
      "g++ -E '" + (folder() / "a.cpp").string() + "' -o '" + file.string() + "' 2>/dev/null";
  (void)!system(command.c_str());
  return file;
}

std::vector<Program> programs() {
  std::vector<Program> all;
  for (const char* name : {"containers", "trees", "lists", "exchange"}) {
    all.push_back({name, workload({name}), 5, true});
  }
  for (const char* name : {"pairs", "churn"}) all.push_back({name, workload({name}), 3, false});
  const std::vector<Program> wanted = {
      {"cc1plus",
       {compiler(), "-quiet", "-fpreprocessed", "-O1", source(), "-o", "/dev/null"},
       5,
       true},
      {"python3",
       {"/usr/bin/python3", "-S", "-c",
        "for k in range(8): d = {str(i): [i] * 100 for i in range(20000)}"},
       5,
       true},
      {"perl",
       {"/usr/bin/perl", "-e", "for my $k (1..4) { my %h; $h{$_} = [$_, $_] for 1..60000; }"},
       5,
       true},
      {"sqlite3",
       {"/usr/bin/sqlite3", ":memory:",
        "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n "
        "where i < 200000) insert into t select i, hex(i) from n; select count(distinct b) from "
        "t;"},
       5,
       true}};
  for (const Program& program : wanted) {
    if (access(program.command[0].c_str(), X_OK) == 0) {
      all.push_back(program);
    } else {
      fprintf(stderr, "skipped: %s is not installed\n", program.name.c_str());
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const bool has_heaptrack = access(kHeaptrack, R_OK) == 0;
  if (!has_heaptrack) fprintf(stderr, "skipped: heaptrack is not installed (%s)\n", kHeaptrack);
  for (const Program& program : programs()) compare(program, has_heaptrack);
  const int status = run_all(argc, argv);
  fs::remove_all(folder());
  return status;
}
