// The parent half of the probe: starts the child and reads its answer.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "allocator/tools/child.h"
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

// Empty: well.
std::string how_it_died(int status) {
  return status == 0 ? "" : "a process under the library " + describe_status(status);
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
  Pipe answer;
  const pid_t child = answer.is_open() ? fork() : -1;
  if (child == 0) become_probe(library, answer.in.get());
  if (child < 0) {
    result.failure = std::string("the probe cannot be started: ") + strerror(errno);
    return result;
  }
  answer.in.shut();
  const std::string text = read_all(answer.out.get());
  const int status = wait_for(child);
  result.failure = how_it_died(status);
  if (result.failure.empty()) parse(text, &result);
  return result;
}

}  // namespace rdmalloc::cli
