#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "allocator/tools/render.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

// The completion function. It uses tables with one case per command, such as "trace record": its
// `commands`, its `flags`, the flags that take the next word as `value`, and whether a `program`
// follows; and per command and flag the `choices`, or FILE.
constexpr const char* kFunction = R"sh(
_rdmalloc_offer() {
  if [ "$1" = FILE ]; then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$2")
  else
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
  fi
}

_rdmalloc() {
  local words=() starts=() command= flag at
  COMPREPLY=()
  # Bash takes "--strict=on" for three words.
  for ((at = 1; at <= COMP_CWORD; ++at)); do
    if [[ ${#words[@]} -gt 0 && (${COMP_WORDS[at]} == = || ${COMP_WORDS[at - 1]} == =) ]]; then
      words[-1]+=${COMP_WORDS[at]}
    else
      words+=("${COMP_WORDS[at]}") starts+=("$at")
    fi
  done
  local last=$((${#words[@]} - 1))
  local word=${words[last]}
  at=0
  while [ -n "$(_rdmalloc_commands "$command")" ]; do
    if [ $at -eq $last ]; then
      _rdmalloc_offer "$(_rdmalloc_commands "$command") $(_rdmalloc_flags "$command")" "$word"
      return
    fi
    command=${command:+$command }${words[at]}
    at=$((at + 1))
  done
  while [[ $at -lt $last && ${words[at]} == -* && ${words[at]} != -- ]]; do
    flag=${words[at]}
    at=$((at + 1))
    if [[ " $(_rdmalloc_value "$command") " == *" $flag "* ]]; then
      if [ $at -eq $last ]; then
        _rdmalloc_offer "$(_rdmalloc_choices "$command $flag")" "$word"
        return
      fi
      at=$((at + 1))
    fi
  done
  if [[ $at -eq $last && $word == --*=* ]]; then
    _rdmalloc_offer "$(_rdmalloc_choices "$command ${word%%=*}")" "${word#*=}"
  elif [[ $at -eq $last && $word == -* ]]; then
    _rdmalloc_offer "$(_rdmalloc_flags "$command")" "$word"
  elif [ -n "$(_rdmalloc_program "$command")" ]; then
    [[ ${words[at]} != -- ]] || at=$((at + 1))
    if declare -F _command_offset > /dev/null; then
      _command_offset "${starts[at]}"
    elif [ $at -eq $last ]; then
      mapfile -t COMPREPLY < <(compgen -c -- "$word" | sort -u)
    else
      _rdmalloc_offer FILE "$word"
    fi
  elif [ -n "$(_rdmalloc_flags "$command")" ]; then
    _rdmalloc_offer FILE "$word"
  fi
}
complete -F _rdmalloc rdmalloc
)sh";

// A bash function that prints a line for each word or words that it is called with.
class Table {
 public:
  explicit Table(const std::string& name) : text_("_rdmalloc_" + name + "() {\n  case $1 in\n") {}
  void add(const std::string& words, const std::string& line) {
    if (!line.empty()) text_ += "    \"" + words + "\") echo \"" + line + "\" ;;\n";
  }
  std::string text() const { return text_ + "  esac\n}\n"; }

 private:
  std::string text_;
};

struct Tables {
  Table commands{"commands"};
  Table flags{"flags"};
  Table value{"value"};
  Table choices{"choices"};
  Table program{"program"};
};

// "auto|off|LIST" becomes "auto off": words in upper case are placeholders.
std::string choices_of(const std::string& placeholder) {
  if (placeholder == "FILE" || placeholder == "FOLDER") return "FILE";
  if (placeholder.find('|') == std::string::npos) return "";
  std::vector<std::string> choices = parts_of(placeholder, '|');
  std::erase_if(choices, [](const std::string& name) {
    return std::ranges::all_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
  });
  return joined(choices, " ");
}

void add_flags(const CLI::App& app, const std::string& command, Tables& tables) {
  std::vector<std::string> flags, with_value;
  for (const CLI::Option* flag : app.get_options()) {
    if (flag->get_positional()) continue;
    for (const std::string& name : parts_of(flag->get_name(false, true), ',')) {
      flags.push_back(name);
      if (flag->get_items_expected_min() > 0) with_value.push_back(name);
      if (flag->get_items_expected_max() == 0) continue;
      tables.choices.add(command + " " + name, choices_of(flag->get_type_name()));
    }
  }
  tables.flags.add(command, joined(flags, " "));
  tables.value.add(command, joined(with_value, " "));
}

void add_command(const CLI::App& app, const std::string& command, Tables& tables) {
  const std::vector<std::string> commands = names_below(command);
  for (const std::string& name : commands) {
    add_command(*app.get_subcommand(name), command_below(command, name), tables);
  }
  tables.commands.add(command, joined(commands, " "));
  add_flags(app, command, tables);
  const std::vector<std::string>& synopsis = find_manual_page(command)->synopsis;
  const bool takes_program = std::ranges::any_of(
      synopsis, [](const std::string& line) { return line.find("PROGRAM") != std::string::npos; });
  if (takes_program && !command.empty()) tables.program.add(command, "yes");
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  Tables tables;
  add_command(app, "", tables);
  return "# Completion of rdmalloc for bash, made by: rdmalloc completion\n" +
         tables.commands.text() + tables.flags.text() + tables.value.text() +
         tables.choices.text() + tables.program.text() + kFunction;
}

}  // namespace rdmalloc::cli
