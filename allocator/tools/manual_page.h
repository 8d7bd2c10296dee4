// The documentation of a command: prose (manual.txt), and options from the tables of the command
// line and of the options. Rendered (render.h) as --help and as man pages.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct Entry {
  std::string term;
  std::string text;
};

struct Section {
  std::string title;  // as in man pages: upper case
  std::vector<std::string> paragraphs;
  std::vector<Entry> entries;
};

struct ManualPage {
  std::string command;  // "" for rdmalloc itself
  std::string summary;
  std::vector<std::string> synopsis;  // empty: hidden, not for users and so in no list
  std::vector<Section> sections;
  int manual_section = 1;

  bool is_hidden() const { return synopsis.empty(); }
  std::string name() const;  // of the man page, such as rdmalloc-run
};

// The command of that name, such as "trace record"; the App itself for "".
const CLI::App& find_command(const CLI::App& app, const std::string& names);

// The prose alone: no options yet. Null for an unknown command.
const ManualPage* find_manual_page(const std::string& command);
const std::vector<ManualPage>& all_manual_pages();

// "trace record" for "trace" and "record"; "run" for "" and "run", or "run" and "".
std::string command_below(const std::string& above, const std::string& name);

// The names of the commands directly below one, but the hidden ones: "record" and others for
// "trace", all one-word commands for "".
std::vector<std::string> names_below(const std::string& above);

// The prose and what the command line says of the command: what --help prints.
ManualPage complete_manual_page(const std::string& command, const CLI::App& app);

// The same with what only a manual has.
ManualPage manual_page(const std::string& command, const CLI::App& app);

// Every variable with its default, and every statistic: the page rdmalloc(7).
ManualPage reference_manual_page();

}  // namespace rdmalloc::cli
