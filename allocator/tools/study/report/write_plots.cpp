// Writes the plots as files, and runs gnuplot on them.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "allocator/tools/study/report/plots.h"
#include "allocator/tools/study/report/report.h"

namespace rdmalloc::cli {
namespace {

constexpr std::chrono::seconds kLongest{60};
constexpr size_t kMostWords = 65536;

// Reads from `descriptor` until its writers close it or the time is up. True: they closed it.
bool read_all(int descriptor, std::string* words) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd wait{descriptor, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&wait, 1, static_cast<int>(left.count())) : 0;
    if (ready == 0) return false;
    char some[4096];
    const ssize_t count = ready < 0 ? -1 : read(descriptor, some, sizeof some);
    if (count == 0) return true;
    if (count < 0 && errno != EINTR) return true;
    if (count > 0 && words->size() < kMostWords) words->append(some, static_cast<size_t>(count));
  }
}

// gnuplot repeats the line it fails at, with a mark under it; the next line gives the reason.
std::string reason_in(const std::string& words) {
  const size_t line = words.find(" line ");
  std::string reason = line == std::string::npos ? words : words.substr(line + 1);
  return reason.substr(0, reason.find('\n'));
}

std::string how_it_ended(int status, bool in_time, const std::string& words) {
  if (!in_time) return "took more than " + std::to_string(kLongest.count()) + " s";
  if (WIFSIGNALED(status)) return std::string("died of ") + strsignal(WTERMSIG(status));
  if (WEXITSTATUS(status) == 0) return "";
  const std::string reason = reason_in(words);
  return reason.empty() ? "ended with " + std::to_string(WEXITSTATUS(status)) : reason;
}

int spawn(const std::string& folder, const std::string& script, int output, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  std::string program = "gnuplot", file = script;
  char* arguments[] = {program.data(), file.data(), nullptr};
  const int error = posix_spawnp(pid, "gnuplot", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

struct GnuplotOutcome {
  bool found = true;
  std::string problem;  // one line; empty if all went well
};

// Runs gnuplot, which may not be installed, on `script` in `folder`, for a limited time.
GnuplotOutcome run_gnuplot(const std::string& folder, const std::string& script) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {true, strerror(errno)};
  pid_t pid = 0;
  const int error = spawn(folder, script, ends[1], &pid);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return {error != ENOENT, strerror(error)};
  }
  std::string words;
  const bool in_time = read_all(ends[0], &words);
  close(ends[0]);
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {true, how_it_ended(status, in_time, words)};
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

// Removes pictures of an older study, which must not pass for this one if gnuplot fails or draws
// none.
void remove_older(const std::string& place) {
  for (const char* name : report::kPlotNames) {
    for (const char* ending : {".gp", ".dat", ".svg", ".png"}) {
      remove((place + "/" + name + ending).c_str());
    }
  }
}

std::string not_written(const std::string& path) {
  return "no plots: cannot write " + path + ": " + strerror(errno);
}

}  // namespace

std::vector<std::string> write_plots(const nlohmann::json& study, const std::string& folder) {
  const std::vector<report::Plot> plots = report::plots_of(study);
  const std::string place = folder + "/plots";
  if (plots.empty()) return {"no plots: no run went well enough to be drawn"};
  if (mkdir(place.c_str(), 0777) != 0 && errno != EEXIST) return {not_written(place)};
  remove_older(place);
  for (const report::Plot& plot : plots) {
    for (const auto& [ending, text] : {std::pair(".dat", plot.data), {".gp", plot.script}}) {
      const std::string path = place + "/" + plot.name + ending;
      if (!write_file(path, text)) return {not_written(path)};
    }
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
