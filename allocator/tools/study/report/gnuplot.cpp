#include "allocator/tools/study/report/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>

namespace rdmalloc::cli::report {
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

}  // namespace

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

}  // namespace rdmalloc::cli::report
