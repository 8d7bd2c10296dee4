// Writes the plots as files, and runs gnuplot on them.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/study/output_folder.h"
#include "allocator/tools/study/report/plots.h"
#include "allocator/tools/study/report/report.h"

namespace rdmalloc::cli {
namespace {

constexpr unsigned kMostSeconds = 60;

[[noreturn]] void become_gnuplot(const std::string& folder, const std::string& script, int output) {
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(output, stream);
  alarm(kMostSeconds);
  if (chdir(folder.c_str()) == 0) execlp("gnuplot", "gnuplot", script.c_str(), nullptr);
  _exit(errno == ENOENT ? kExitNotFound : kExitNotExecutable);
}

// gnuplot repeats the line it fails at, with a mark under it; the next line gives the reason.
std::string reason_in(const std::string& words) {
  const size_t line = words.find(" line ");
  const std::string reason = line == std::string::npos ? words : words.substr(line + 1);
  return reason.substr(0, reason.find('\n'));
}

struct GnuplotOutcome {
  bool found = true;
  std::string problem;  // one line; empty if all went well
};

// Runs gnuplot, which may not be installed, on `script` in `folder`, for a limited time.
GnuplotOutcome run_gnuplot(const std::string& folder, const std::string& script) {
  Pipe said;
  const pid_t child = said.is_open() ? fork() : -1;
  if (child == 0) become_gnuplot(folder, script, said.in.get());
  if (child < 0) return {true, strerror(errno)};
  said.in.shut();
  const std::string reason = reason_in(read_all(said.out.get()));
  const int status = wait_for(child);
  if (status == 0) return {};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    return {true, "took more than " + std::to_string(kMostSeconds) + " s"};
  }
  const bool is_missing = WIFEXITED(status) && WEXITSTATUS(status) == kExitNotFound;
  return {!is_missing, WIFEXITED(status) && !reason.empty() ? reason : describe_status(status)};
}

// Removes the files of an older study, which must not pass for this one's if gnuplot fails or draws
// none.
void remove_older(const std::string& place) {
  std::error_code ignored;
  for (const std::string name : report::kPlotNames) {
    for (const char* ending : {".gp", ".dat", ".svg", ".png"}) {
      std::filesystem::remove(place + "/" + name + ending, ignored);
    }
  }
}

}  // namespace

std::vector<std::string> write_plots(const nlohmann::json& study, study::OutputFolder& folder) {
  const std::vector<report::Plot> plots = report::plots_of(study);
  if (plots.empty()) return {"no plots: no run went well enough to be drawn"};
  const std::string place = folder.file("plots");
  folder.make_folder("plots");
  remove_older(place);
  for (const report::Plot& plot : plots) {
    folder.write("plots/" + plot.name + ".dat", plot.data);
    folder.write("plots/" + plot.name + ".gp", plot.script);
  }
  std::vector<std::string> notes;
  for (const report::Plot& plot : plots) {
    const GnuplotOutcome outcome = run_gnuplot(place, plot.name + ".gp");
    if (!outcome.found) {
      return {"gnuplot is not installed: " + place +
              " has data and scripts, but no pictures; install "
              "it (Debian: gnuplot-nox) and type there: for f in *.gp; do gnuplot $f; done"};
    }
    if (!outcome.problem.empty()) {
      notes.push_back("no plot " + place + "/" + plot.name + ".svg: gnuplot: " + outcome.problem);
    }
  }
  return notes;
}

}  // namespace rdmalloc::cli
