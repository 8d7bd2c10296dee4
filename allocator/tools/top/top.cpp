#include "allocator/tools/top/top.h"

#include <pwd.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "allocator/tools/refusal.h"
#include "allocator/tools/terminal.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/json.h"
#include "allocator/tools/top/screen.h"
#include "allocator/tools/top/table.h"
#include "allocator/tools/top/view.h"

namespace rdmalloc::cli {
namespace {

constexpr double kShortest = 0.1;  // seconds
constexpr double kLongest = 86'400;

std::optional<double> parse_seconds(const std::string& text) {
  char* end = nullptr;
  const double seconds = strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && end == text.c_str() + text.size();
  return is_number && seconds >= kShortest && seconds <= kLongest ? std::optional(seconds)
                                                                  : std::nullopt;
}

std::string objection_to_seconds(const std::string& text) {
  if (parse_seconds(text)) return {};
  return "invalid value '" + printable(text) + "': use seconds from 0.1 to 86400, such as 2 or 0.5";
}

uint64_t user_number(const std::string& user) {
  if (const auto number = parse_number<uint64_t>(user)) return *number;
  const passwd* entry = getpwnam(user.c_str());
  if (entry == nullptr) throw Refusal("top: there is no user '" + printable(user) + "'");
  return entry->pw_uid;
}

ProcessFilter filter_of(const TopRequest& request) {
  ProcessFilter filter;
  filter.all = request.all;
  const std::set<pid_t> numbers(request.processes.begin(), request.processes.end());
  filter.numbers.assign(numbers.begin(), numbers.end());
  if (!request.user.empty()) filter.user = user_number(request.user);
  return filter;
}

void print_table(const TopView& view) {
  const size_t width = columns_of(STDOUT_FILENO);
  const auto columns = columns_within(width);
  const auto print_line = [width](const std::string& line) { puts(line.substr(0, width).c_str()); };
  std::ranges::for_each(head_lines(view, width), print_line);
  print_line("");
  print_line(title_line(columns));
  for (const MachineProcess& process : view.scan.processes) {
    const std::string line = line_of(process, columns).substr(0, width);
    puts(has_too_much(process) ? coloured(line, Colour::kRed, STDOUT_FILENO).c_str()
                               : line.c_str());
  }
  print_line(total_line(view.scan.processes, columns));
}

// False: the reader is gone.
bool print(const TopView& view, bool json, bool repeats) {
  if (json) {
    constexpr int kOneLine = -1;
    puts(as_text(as_json(view), repeats ? kOneLine : 2).c_str());
  } else {
    print_table(view);
    if (repeats) puts("");
  }
  return fflush(stdout) == 0;
}

TopView sorted_view(const ProcessFilter& filter) {
  TopView view = view_of_machine(filter);
  sort_processes(&view.scan.processes, {});
  return view;
}

// For output to a file, or to a terminal without a screen.
int watch_lines(const ProcessFilter& filter, bool json, double seconds) {
  double whole = 0;
  const double part = std::modf(seconds, &whole);
  const timespec pause = {static_cast<time_t>(whole), static_cast<long>(part * 1e9)};
  while (print(sorted_view(filter), json, true)) nanosleep(&pause, nullptr);
  return kExitProblem;
}

}  // namespace

void add_top_flags(CLI::App& command, TopRequest& request) {
  command.add_flag("--all", request.all,
                   "also list processes that pin and lock nothing and are not under rdmalloc");
  command.add_option("--pid", request.processes, "only this process; may be given several times")
      ->type_name("PID")
      ->check(objection_to_process);
  command.add_option("--user", request.user, "only this user's processes: a name or a number")
      ->type_name("USER");
  const auto keep = [&request](const std::vector<std::string>& given) {
    request.is_watched = true;
    if (!given.empty()) request.seconds = parse_seconds(given.front()).value_or(request.seconds);
    return true;
  };
  CLI::Option* watch =
      command.add_option("--watch", keep, "repeat every second, or every SECONDS: --watch=SECONDS");
  watch->expected(0, 1)->type_name("SECONDS")->check(objection_to_seconds);
}

int top(const TopRequest& request, bool json) {
  const ProcessFilter filter = filter_of(request);
  if (request.is_watched) {
    if (!json && has_screen()) return show_on_screen(filter, request.seconds);
    return watch_lines(filter, json, request.seconds);
  }
  const TopView view = sorted_view(filter);
  if (!print(view, json, false)) return kExitProblem;
  const bool is_complete = view.scan.processes.size() >= filter.numbers.size();
  return is_complete ? kExitOk : kExitProblem;
}

}  // namespace rdmalloc::cli
