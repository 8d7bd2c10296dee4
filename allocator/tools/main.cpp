// The rdmalloc command: parses the command line and calls the sub-command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "allocator/tools/command_line.h"
#include "allocator/tools/doctor/doctor.h"
#include "allocator/tools/doctor/probe.h"
#include "allocator/tools/info/info.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/render.h"
#include "allocator/tools/run/shm_plan.h"
#include "allocator/tools/terminal.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/stats.h"
#include "allocator/tools/top/top.h"

namespace rdmalloc::cli {
namespace {

// The sub-command in use, such as "trace record", for help and messages; "" if there is none yet.
std::string command_of(const CLI::App& app) {
  std::string names;
  for (auto found = app.get_subcommands(); !found.empty();
       found = found.front()->get_subcommands()) {
    names = command_below(names, found.front()->get_name());
  }
  return names;
}

int print(const std::string& text) {
  fputs(text.c_str(), stdout);
  return kExitOk;
}

// What may follow the command's words.
std::vector<std::string> names_of_commands(const std::string& command) {
  std::vector<std::string> names = names_below(command);
  if (command.empty()) names.insert(names.begin(), {"help", "version"});
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string see_help(const std::string& command) {
  return "see " + command_below("rdmalloc", command) + " --help";
}

std::string not_known(const std::string& sentence, const std::string& nearest,
                      const std::string& command) {
  if (nearest.empty()) return sentence + ": " + see_help(command);
  return sentence + ": did you mean '" + nearest + "'? Else " + see_help(command);
}

std::string explain_word(const std::string& command, const std::string& word, const CLI::App& app) {
  const std::string start = command.empty() ? "" : command + ": ";
  if (word.starts_with('-')) {
    const std::string name = word.substr(0, word.find('='));
    return not_known(start + "there is no option '" + name + "'",
                     nearest_word(name, names_of_options(app)), command);
  }
  const auto commands = names_of_commands(command);
  if (commands.empty()) return start + "'" + word + "' is one word too many: " + see_help(command);
  return not_known("there is no command '" + command_below(command, word) + "'",
                   nearest_word(word, commands), command);
}

std::string explain(const CLI::ParseError& error, const CLI::App& app) {
  const std::string command = command_of(app);
  const auto unknown = app.remaining(true);
  if (!unknown.empty()) return explain_word(command, unknown.front(), find_command(app, command));
  std::string what = error.what();
  // For a missing value CLI11 reports how many are missing and of which type.
  if (error.get_name() == "ArgumentMismatch")
    what = what.substr(0, what.find(':')) + " has no value";
  return command + ": " + what;
}

int print_man_page(const std::string& page, const CLI::App& app) {
  if (page == "environment") return print(as_roff(reference_manual_page()));
  if (page.empty() || page == "rdmalloc") return print(as_roff(manual_page("", app)));
  for (const ManualPage& known : all_manual_pages()) {
    if (known.is_hidden() || known.name() != "rdmalloc-" + page) continue;
    return print(as_roff(manual_page(known.command, app)));
  }
  throw Refusal("there is no page '" + page + "'");
}

int dispatch(const Request& request, const CLI::App& app) {
  const std::string command = command_of(app);
  if (command == "run") run(request.run);
  if (command == "info") return info(request.json);
  if (command == "doctor") return doctor(request.json, request.all);
  if (command == "probe") return probe();
  if (command == "shm-plan") return shm_plan(request.shm_plan, request.json);
  if (command == "study") return study::run_study(request.study);
  if (command == "trace record") return trace_record(request.record);
  if (command == "trace replay") return trace_replay(request.replay);
  if (command == "trace import") return trace_import(request.text, request.trace);
  if (command == "trace text") return trace_text(request.trace);
  if (command == "trace info") return trace_info(request.trace, request.json);
  if (command == "trace cost") return trace_cost(request.with_threads);
  if (command == "top") return top(request.top, request.json);
  if (command == "stats") return stats(request.stats, request.json);
  if (command == "completion") return print(bash_completion(app));
  if (command == "man") return print_man_page(request.page, app);
  if (command == "trace") throw Refusal("trace: say what to do: " + joined(names_below(command)));
  return print(request.markdown ? options_as_markdown() : options_as_text());
}

// `help` and `version` are accepted as words; elsewhere they are options.
std::vector<std::string> as_options(std::vector<std::string> words) {
  if (words.size() == 1 && words.front() == "version") return {"--version"};
  if (words.empty() || words.front() != "help") return words;
  std::rotate(words.begin(), words.begin() + 1, words.end());
  words.back() = "--help";
  return words;
}

int act_on(const std::vector<std::string>& as_given, const Request& request, CLI::App& app) {
  if (as_given.empty()) {
    print(as_plain_text(complete_manual_page("", app)));
    throw Refusal("no command was given");
  }
  std::vector<std::string> words = as_options(as_given);
  std::reverse(words.begin(), words.end());  // the order that CLI11 wants
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp& help) {
    if (!app.remaining(true).empty()) throw Refusal(explain(help, app));
    return print(as_plain_text(complete_manual_page(command_of(app), app)));
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    throw Refusal(explain(error, app));
  }
  return dispatch(request, app);
}

void complain(const std::string& sentence) {
  fprintf(stderr, "%s %s\n", coloured("rdmalloc:", Colour::kRed, STDERR_FILENO).c_str(),
          sentence.c_str());
}

// The output may not have been written: the disk is full, or the reader is gone.
int after_output(int status) {
  errno = 0;
  if (fflush(stdout) == 0 && ferror(stdout) == 0) return status;
  complain(std::string("not all of the output could be written: ") +
           strerror(errno != 0 ? errno : ENOSPC));
  return status == kExitOk ? kExitProblem : status;
}

}  // namespace
}  // namespace rdmalloc::cli

int main(int argc, char** argv) {
  using namespace rdmalloc::cli;
  try {
    Request request;
    const auto app = make_command_line(request);
    return after_output(act_on(take_program(argc, argv, *app, request), request, *app));
  } catch (const Refusal& refusal) {
    fflush(stdout);
    complain(refusal.what());
    return refusal.status();
  } catch (const std::exception& error) {
    complain(error.what());
    return kExitRefused;
  }
}
