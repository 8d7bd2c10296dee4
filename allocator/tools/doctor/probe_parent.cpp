// The parent half of the probe: starts the child and reads its answer.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "allocator/tools/doctor/probe.h"
#include "allocator/tools/run/library.h"

namespace rdmalloc::cli {
namespace {

// Far more time than the probe takes; it keeps a library that hangs from hanging the command.
constexpr unsigned kSeconds = 30;

[[noreturn]] void become_probe(const std::string& library, int output) {
  dup2(output, STDOUT_FILENO);
  preload({library});
  unsetenv("RDMALLOC_REPORT");
  unsetenv("RDMALLOC_STATS");
  setenv("RDMALLOC_WARN", "off", 1);  // the parent warns
  alarm(kSeconds);
  execl("/proc/self/exe", "rdmalloc", "probe", nullptr);
  _exit(127);
}

std::string read_all(int fd) {
  std::string out;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return out;
    out.append(buffer, static_cast<size_t>(got));
  }
}

std::string how_it_died(int status) {
  if (WIFSIGNALED(status)) {
    return "a process under the library was killed by signal " + std::to_string(WTERMSIG(status)) +
           " (" + strsignal(WTERMSIG(status)) + ")";
  }
  if (WEXITSTATUS(status) == 0) return {};
  return "a process under the library ended with status " + std::to_string(WEXITSTATUS(status));
}

void parse(const std::string& text, ProbeResult* result) {
  std::istringstream in(text);
  in >> result->asked >> result->in_window >> result->threads >> result->monitor;
  in.ignore();
  std::getline(in, result->monitor_why);
  const auto report = nlohmann::json::parse(in, nullptr, false);
  if (!report.is_object()) {
    result->failure = "the report of a process under the library is not JSON";
    return;
  }
  for (const auto& [key, value] : report.items()) {
    if (value.is_number_unsigned()) result->stats[key] = value.get<uint64_t>();
  }
  result->limited_by = report.value("budget_limited_by", "?");
}

}  // namespace

ProbeResult run_probe(const std::string& library) {
  ProbeResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.failure = std::string("pipe: ") + strerror(errno);
    return result;
  }
  const pid_t child = fork();
  if (child == 0) become_probe(library, ends[1]);
  close(ends[1]);
  const std::string text = child > 0 ? read_all(ends[0]) : "";
  close(ends[0]);
  if (child < 0) {
    result.failure = std::string("fork: ") + strerror(errno);
    return result;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.failure = how_it_died(status);
  if (result.failure.empty()) parse(text, &result);
  return result;
}

}  // namespace rdmalloc::cli
