#include "allocator/cli/command_line.h"

#include <CLI/CLI.hpp>

#include "allocator/cli/page.h"

namespace rdmalloc::cli {
namespace {

CLI::App* add_command(CLI::App& app, const char* name, Request& request) {
  CLI::App* command = app.add_subcommand(name, find_page(name)->summary);
  command->set_help_flag("-h,--help", "print this help and exit");
  command->callback([&request, name] { request.command = name; });
  return command;
}

bool value_follows(const std::string& word) {
  for (const OptionInfo& option : kOptions) {
    if (word == flag_name(option)) return takes_value(option);
  }
  return false;
}

}  // namespace

std::unique_ptr<CLI::App> make_command_line(Request& request) {
  auto app = std::make_unique<CLI::App>(find_page("")->summary, "rdmalloc");
  app->set_help_flag("-h,--help", "print this help and exit");
  app->set_version_flag("--version", "rdmalloc " RDMALLOC_VERSION, "print the version and exit");
  app->require_subcommand(1);

  CLI::App* run = add_command(*app, "run", request);
  for (size_t i = 0; i < kShims.size(); ++i) {
    run->add_flag(kShims[i].flag, request.run.shims[i], kShims[i].effect);
  }
  run->add_flag("--share-remote", request.run.share_remote,
                "with --verbs: also those with remote rights (as --verbs-share-remote)");
  add_option_flags(*run, request.run.settings);
  const char* as_json = "print one JSON object";
  add_command(*app, "info", request)->add_flag("--json", request.json, as_json);
  CLI::App* doctor = add_command(*app, "doctor", request);
  doctor->add_flag("--json", request.json, as_json);
  doctor->add_flag("--all", request.all, "explain what is ok, too");
  add_command(*app, "options", request)
      ->add_flag("--markdown", request.markdown, "print a Markdown table");
  CLI::App* plan = add_command(*app, "shm-plan", request);
  add_shm_plan_flags(*plan, request.shm_plan);
  plan->add_flag("--json", request.json, as_json);
  add_command(*app, "man", request)->add_option("page", request.page, "the page");
  add_command(*app, "probe", request);
  return app;
}

std::vector<std::string> take_program(int argc, char** argv, Request& request) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "run") return words;
  size_t program = 1;
  while (program < words.size() && words[program].starts_with('-') && words[program] != "--") {
    program += value_follows(words[program]) ? 2 : 1;
  }
  if (program >= words.size()) return words;
  const size_t first = words[program] == "--" ? program + 1 : program;
  request.run.command.assign(words.begin() + static_cast<ptrdiff_t>(first), words.end());
  words.resize(program);
  return words;
}

}  // namespace rdmalloc::cli
