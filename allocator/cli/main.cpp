// The rdmalloc command: parses the line and calls the sub-command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "allocator/cli/command_line.h"
#include "allocator/cli/doctor.h"
#include "allocator/cli/info.h"
#include "allocator/cli/probe.h"
#include "allocator/cli/refusal.h"
#include "allocator/cli/render.h"
#include "allocator/cli/shm_plan.h"
#include "allocator/cli/stats.h"
#include "allocator/cli/top/top.h"

namespace rdmalloc::cli {
namespace {

// The sub-command that is being talked about, for help and messages, such as "trace record"; ""
// before there is one.
std::string command_of(const CLI::App& app) {
  std::string names;
  for (auto found = app.get_subcommands(); !found.empty();
       found = found.front()->get_subcommands()) {
    names += (names.empty() ? "" : " ") + found.front()->get_name();
  }
  return names;
}

std::string with_blank(const std::string& command) { return command.empty() ? "" : " " + command; }

int print(const std::string& text) {
  fputs(text.c_str(), stdout);
  return fflush(stdout) == 0 ? kExitOk : kExitProblem;
}

std::string explain(const CLI::ParseError& error, const std::vector<std::string>& words,
                    const CLI::App& app) {
  const std::string command = command_of(app);
  const std::string help = ": see rdmalloc" + with_blank(command) + " --help";
  if (words.empty()) return "no command was given" + help;
  if (command.empty()) return "there is no command '" + words.front() + "'" + help;
  const auto extra = app.remaining(true);
  if (!extra.empty()) return command + ": there is no option '" + extra.front() + "'" + help;
  return command + ": " + error.what();
}

int print_man_page(const std::string& page, const CLI::App& app) {
  if (page == "environment") return print(as_roff(reference_page()));
  if (page.empty() || page == "rdmalloc") return print(as_roff(manual_page("", app)));
  for (const Page& known : all_pages()) {
    if (known.hidden || known.name != "rdmalloc-" + page) continue;
    return print(as_roff(manual_page(known.command, app)));
  }
  throw Refusal("there is no page '" + page + "'");
}

int dispatch(const Request& request, const CLI::App& app) {
  if (request.command == "run") run(request.run);
  if (request.command == "info") return info(request.json);
  if (request.command == "doctor") return doctor(request.json, request.all);
  if (request.command == "probe") return probe();
  if (request.command == "shm-plan") return shm_plan(request.shm_plan, request.json);
  if (request.command == "study") return study::run_study(request.study);
  if (request.command == "trace") return trace(request.trace);
  if (request.command == "top") return top(request.top, request.json);
  if (request.command == "stats") return stats(request.stats, request.json);
  if (request.command == "man") return print_man_page(request.page, app);
  return print(request.markdown ? options_as_markdown() : options_as_text());
}

int act_on(std::vector<std::string> words, const Request& request, CLI::App& app) {
  const std::vector<std::string> as_given = words;
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return print(as_plain_text(complete_page(command_of(app), app)));
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    throw Refusal(explain(error, as_given, app));
  }
  return dispatch(request, app);
}

}  // namespace
}  // namespace rdmalloc::cli

int main(int argc, char** argv) {
  using namespace rdmalloc::cli;
  try {
    Request request;
    const auto app = make_command_line(request);
    return act_on(take_program(argc, argv, *app, request), request, *app);
  } catch (const Refusal& refusal) {
    fprintf(stderr, "rdmalloc: %s\n", refusal.what());
    return refusal.status();
  } catch (const std::exception& error) {
    fprintf(stderr, "rdmalloc: %s\n", error.what());
    return kExitRefused;
  }
}
