#include "allocator/tools/study/study_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "allocator/tools/refusal.h"
#include "allocator/tools/run/program.h"
#include "allocator/tools/trace/trace.h"
#include "allocator/trace/trace_file.h"

namespace rdmalloc::cli::study {
namespace {

constexpr double kHighestRate = 10000;

void check(const StudyRequest& request) {
  if (request.command.empty() && request.trace.empty()) {
    throw Refusal("no program was named: rdmalloc study [options] -- PROGRAM ARGS...");
  }
  if (!request.command.empty() && !request.trace.empty()) {
    throw Refusal("--trace replays a trace: no program can be named beside it");
  }
  if (!(request.rate_hz > 0) || request.rate_hz > kHighestRate) {
    throw Refusal("--rate: give more than 0 and at most 10000 samples in a second");
  }
  if (!(request.linger_seconds >= 0) ||
      (request.timeout_seconds && !(*request.timeout_seconds > 0))) {
    throw Refusal("--linger and --timeout: give seconds");
  }
}

// Allocators requested by name must be installed; for others a note says that they are missing.
std::vector<Allocator> choose_allocators(const std::string& list, std::vector<std::string>& notes) {
  std::vector<Allocator> chosen;
  if (!list.empty()) {
    for (const std::string& name : parse_allocators(list)) chosen.push_back(find_allocator(name));
    return chosen;
  }
  for (const std::string& name : allocator_names()) {
    const std::optional<Allocator> found = look_for_allocator(name);
    if (found) chosen.push_back(*found);
    if (!found) notes.push_back(name + " is not installed");
  }
  return chosen;
}

std::vector<std::string> command_of(const StudyRequest& request) {
  if (request.trace.empty()) return request.command;
  const trace::Reader readable(request.trace);
  return {find_replay(), "--touch", "all", std::filesystem::absolute(request.trace)};
}

// A problem may be the same for all preloaded allocators, so each sentence is noted once.
void check_program(const std::string& program, const std::vector<Allocator>& allocators,
                   std::vector<std::string>& notes) {
  std::vector<std::string> said;
  for (const Allocator& allocator : allocators) {
    if (!allocator.library.empty()) said = check_preloadable(program, allocator.library);
  }
  notes.insert(notes.end(), said.begin(), said.end());
}

}  // namespace

StudyPlan make_plan(const StudyRequest& request) {
  check(request);
  StudyPlan plan;
  const std::vector<Allocator> allocators = choose_allocators(request.allocators, plan.notes);
  plan.configurations = configurations_of(allocators);
  plan.caps = parse_caps(request.caps);
  const auto ours = std::ranges::find(allocators, true, &Allocator::ours);
  if (ours != allocators.end()) plan.ours = *ours;
  if (!plan.ours) plan.caps.clear();
  for (const std::string& setting : request.settings) {
    if (!plan.ours) throw Refusal("--set is about rdmalloc: it is not among --allocators");
    plan.configurations.push_back(with_option(*plan.ours, setting));
  }
  if (access(request.input.c_str(), R_OK) != 0) {
    throw Refusal("--stdin " + request.input + ": " + strerror(errno));
  }
  plan.command = command_of(request);
  plan.program = find_program(plan.command.front());
  check_program(plan.program, allocators, plan.notes);
  return plan;
}

}  // namespace rdmalloc::cli::study
