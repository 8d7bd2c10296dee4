#include "allocator/tools/manual_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "allocator/tools/run/option_flags.h"
#include "allocator/tools/text.h"
#include "include/rdmalloc/rdmalloc.h"

namespace rdmalloc::cli {
namespace {

const OptionInfo* table_option(const std::string& flag) {
  for (const OptionInfo& option : kOptions) {
    if (flag == flag_name(option)) return &option;
  }
  return nullptr;
}

// Whether the flag's value has a placeholder of our own, rather than CLI11's name of a type.
bool has_placeholder(const CLI::Option& flag) {
  const std::string name = flag.get_type_name();
  return !name.empty() && name != "TEXT" && name != "INT" && name != "UINT" && name != "FLOAT";
}

// Describes a flag: from the option table with value and default, otherwise from CLI11.
Entry describe(const CLI::Option& flag) {
  const OptionInfo* option = table_option(flag.get_name());
  if (option == nullptr) {
    std::string names = flag.get_name(false, true);
    const size_t comma = names.find(',');
    if (comma != std::string::npos) names.insert(comma + 1, " ");
    if (has_placeholder(flag)) names += " " + flag.get_type_name();
    return {names, flag.get_description()};
  }
  return {flag_usage(*option), flag.get_description() + " (default " + default_text(*option) + ")"};
}

Section options_of(const CLI::App& command) {
  Section section{"OPTIONS", {}, {}};
  for (const CLI::Option* flag : command.get_options()) {
    if (!flag->get_positional()) section.entries.push_back(describe(*flag));
  }
  return section;
}

Section list_of_commands(const std::string& above) {
  Section section{"COMMANDS", {}, {}};
  for (const std::string& name : names_below(above)) {
    section.entries.push_back({name, find_manual_page(command_below(above, name))->summary});
  }
  return section;
}

Section see_also(const ManualPage& page) {
  Section section{"SEE ALSO", {}, {}};
  std::string names;
  for (const ManualPage& other : all_manual_pages()) {
    if (other.is_hidden() || other.name() == page.name()) continue;
    names += other.name() + "(1), ";
  }
  section.paragraphs.push_back(names + (page.manual_section == 1 ? "rdmalloc(7)" : "rdmalloc(1)"));
  return section;
}

Section variables() {
  Section section{
      "ENVIRONMENT",
      {"Read once, before the program's first allocation. One that is unknown or malformed "
       "is named in a warning and the default is kept."},
      {}};
  for (const OptionInfo& option : kOptions) {
    section.entries.push_back({variable_name(option), std::string(option.help) + " (default " +
                                                          default_text(option) + ")"});
  }
  return section;
}

Section statistics() {
  Section section{"STATISTICS",
                  {"The keys of the report, and the fields that rdm_stats_get() fills. Bytes and "
                   "nanoseconds are named so, the rest are counts; a peak is the highest since the "
                   "process started."},
                  {}};
#define STATISTIC(name, meaning) section.entries.push_back({#name, meaning});
  RDM_STATS_LIST(STATISTIC)
#undef STATISTIC
  section.entries.push_back(
      {"budget_limited_by",
       "which limit budget_bytes comes from: cap, memlock, available or node"});
  return section;
}

}  // namespace

std::string ManualPage::name() const {
  std::string name = command_below("rdmalloc", command);
  std::ranges::replace(name, ' ', '-');
  return name;
}

const CLI::App& find_command(const CLI::App& app, const std::string& names) {
  const CLI::App* found = &app;
  for (const std::string& name : words_of(names)) found = found->get_subcommand(name);
  return *found;
}

std::string command_below(const std::string& above, const std::string& name) {
  return above + (above.empty() || name.empty() ? "" : " ") + name;
}

std::vector<std::string> names_below(const std::string& above) {
  std::vector<std::string> names;
  for (const ManualPage& page : all_manual_pages()) {
    const std::string name = page.command.substr(page.command.find_last_of(' ') + 1);
    if (page.is_hidden() || name.empty() || page.command != command_below(above, name)) continue;
    names.push_back(name);
  }
  return names;
}

ManualPage complete_manual_page(const std::string& command, const CLI::App& app) {
  ManualPage page = *find_manual_page(command);
  // Between the description and the exit status.
  auto place = page.sections.begin() + (page.sections.empty() ? 0 : 1);
  place = page.sections.insert(place, options_of(find_command(app, command)));
  const Section commands = list_of_commands(command);
  if (!commands.entries.empty()) page.sections.insert(place, commands);
  return page;
}

ManualPage manual_page(const std::string& command, const CLI::App& app) {
  ManualPage page = complete_manual_page(command, app);
  page.sections.push_back(see_also(page));
  return page;
}

ManualPage reference_manual_page() {
  ManualPage page{"", "environment variables and statistics", {}, {}, 7};
  page.sections = {variables(), find_manual_page("run")->sections[1], statistics()};
  page.sections.push_back(see_also(page));
  return page;
}

}  // namespace rdmalloc::cli
