#include "allocator/tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "allocator/tools/manual_page.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/stats.h"

namespace rdmalloc::cli {
namespace {

constexpr const char* kAsJson = "print one JSON object";

// `command`: all its words, such as "trace record"; `above` has all but the last.
CLI::App* add_command(CLI::App& above, const std::string& command) {
  const std::string name = command.substr(command.find_last_of(' ') + 1);
  CLI::App* const added = above.add_subcommand(name, find_manual_page(command)->summary);
  added->set_help_flag("-h,--help", "print this help and exit");
  return added;
}

void add_trace_commands(CLI::App& trace, Request& request) {
  trace.require_subcommand(0, 1);
  add_trace_record_flags(*add_command(trace, "trace record"), request.record);
  add_trace_replay_flags(*add_command(trace, "trace replay"), request.replay);
  CLI::App* const import = add_command(trace, "trace import");
  import->add_option("text", request.text, "the text; - is standard input")->required();
  import->add_option("file", request.trace, "the trace to write")->required();
  CLI::App* const info = add_command(trace, "trace info");
  info->add_flag("--json", request.json, kAsJson);
  for (CLI::App* const reads : {add_command(trace, "trace text"), info}) {
    reads->add_option("file", request.trace, "the trace")->required();
  }
  add_command(trace, "trace cost")->add_flag("--threads", request.with_threads, "");
}

bool value_follows(const CLI::App& command, const std::string& word) {
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_min() > 0;
}

// Moves the program and its arguments out of `words`, where the command's options begin at `at`.
void split(std::vector<std::string>& words, size_t at, const CLI::App& command,
           std::vector<std::string>& program) {
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--") {
    const bool has_value = value_follows(command, words[at]);
    if (has_value && at + 1 < words.size() && words[at + 1] == "--") {
      throw Refusal(words[at] + " has no value: there is '--' behind it");
    }
    at += has_value ? 2 : 1;
  }
  if (at >= words.size()) return;
  const size_t first = words[at] == "--" ? at + 1 : at;
  program.assign(words.begin() + static_cast<ptrdiff_t>(first), words.end());
  words.resize(at);
}

}  // namespace

std::unique_ptr<CLI::App> make_command_line(Request& request) {
  auto app = std::make_unique<CLI::App>(find_manual_page("")->summary, "rdmalloc");
  app->set_help_flag("-h,--help", "print this help and exit");
  app->set_version_flag("--version", "rdmalloc " RDMALLOC_VERSION, "print the version and exit");
  app->require_subcommand(1);

  CLI::App* run = add_command(*app, "run");
  for (size_t i = 0; i < kShims.size(); ++i) {
    run->add_flag(kShims[i].flag, request.run.shims[i], kShims[i].effect);
  }
  run->add_flag("--share-remote", request.run.share_remote,
                "with --verbs: also those with remote rights (as --verbs-share-remote)");
  add_option_flags(*run, request.run.settings);
  add_command(*app, "info")->add_flag("--json", request.json, kAsJson);
  CLI::App* doctor = add_command(*app, "doctor");
  doctor->add_flag("--json", request.json, kAsJson);
  doctor->add_flag("--all", request.all, "explain what is ok, too");
  add_command(*app, "options")->add_flag("--markdown", request.markdown, "print a Markdown table");
  CLI::App* plan = add_command(*app, "shm-plan");
  add_shm_plan_flags(*plan, request.shm_plan);
  plan->add_flag("--json", request.json, kAsJson);
  study::add_study_flags(*add_command(*app, "study"), request.study);
  add_trace_commands(*add_command(*app, "trace"), request);
  CLI::App* top = add_command(*app, "top");
  add_top_flags(*top, request.top);
  top->add_flag("--json", request.json, kAsJson);
  CLI::App* stats = add_command(*app, "stats");
  add_stats_flags(*stats, request.stats);
  stats->add_flag("--json", request.json, kAsJson);
  add_command(*app, "man")->add_option("page", request.page, "the page");
  add_command(*app, "completion");
  add_command(*app, "probe");
  return app;
}

std::vector<std::string> take_program(int argc, char** argv, const CLI::App& app,
                                      Request& request) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::pair<const char*, std::vector<std::string>*> lines[] = {
      {"run", &request.run.command},
      {"study", &request.study.command},
      {"trace record", &request.record.command}};
  for (const auto& [command, program] : lines) {
    const std::vector<std::string> names = words_of(command);
    if (std::ranges::mismatch(names, words).in1 != names.end()) continue;
    split(words, names.size(), find_command(app, command), *program);
  }
  return words;
}

}  // namespace rdmalloc::cli
