#include "allocator/tools/run/option_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "allocator/report/file_name.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

namespace fs = std::filesystem;

// What a value looks like, in short and as advice.
struct Form {
  std::string placeholder, advice;
};

Form form_of(OptionType type) {
  switch (type) {
    case OptionType::kAmount:
      return {"AMOUNT",
              "use bytes with K, M, G or T (64M), or a share of memory (50%) or of the memlock "
              "limit (25%memlock)"};
    case OptionType::kSwitch:
      return {"on|off", "use on or off"};
    case OptionType::kStats:
      return {"on|off|full", "use on, off or full"};
    case OptionType::kNumber:
      return {"NUMBER", "use a number from 1 to 65535"};
    case OptionType::kSeconds:
      return {"SECONDS", "use a number from 0 to 65535"};
    case OptionType::kPath:
      return {"FILE", "use a file name"};
    case OptionType::kCpus:
      return {"inherit|all|LIST", "use inherit, all, or a list of processors (0-3,8)"};
    default:
      const Choices choices = choices_of(type);
      const std::vector<std::string> names(choices.names, choices.names + choices.count);
      return {joined(names, "|"), "use " + joined(names, ", ", " or ")};
  }
}

// Returns an empty string for a good value, as CLI11 expects.
std::string objection(const OptionInfo& option, const std::string& value) {
  const bool no_file = option.type == OptionType::kPath && value.empty();
  if (!no_file && is_valid(option.type, os_text(value))) return {};
  const std::string wrong = "invalid value '" + value + "': ";
  const bool is_path = option.type == OptionType::kPath && !no_file;
  return wrong + (is_path ? objection_to_path(os_text(value)) : form_of(option.type).advice);
}

std::string absolute_pattern(const std::string& value) {
  const fs::path folder = escaped_by(fs::current_path(), {{'%', "%%"}});
  return (value.front() == '/' ? fs::path(value) : folder / value).lexically_normal();
}

// The file that the pattern means in this process; empty if its folder differs per process or rank.
std::string expected_file(const std::string& pattern) {
  const std::string folder = fs::path(pattern).parent_path();
  if (folder.find("%p") != std::string::npos || folder.find("%r") != std::string::npos) return "";
  char path[2 * Options::kLongestPath];
  const bool fits = expand_file_name(pattern.c_str(), find_place(), path, sizeof path);
  return fits ? path : "";
}

std::string writable_file(const OptionInfo& option, const std::string& value) {
  const std::string what = std::string("cannot write the ") + option.name;
  std::string pattern = absolute_pattern(value);
  if (!is_valid(OptionType::kPath, os_text(pattern))) {
    throw Refusal(what + ": " + pattern + " is too long a path");
  }
  const fs::path path = expected_file(pattern);
  if (path.empty()) return pattern;
  const std::string target = fs::exists(path) ? path : path.parent_path();
  if (fs::is_directory(path)) throw Refusal(what + ": " + path.string() + " is a folder");
  if (access(target.c_str(), W_OK) != 0) {
    throw Refusal(what + " to " + value + ": " + target + ": " + strerror(errno));
  }
  return pattern;
}

}  // namespace

std::string variable_name(const OptionInfo& option) {
  std::string name = option.prefix;
  for (const char* c = option.name; *c != '\0'; ++c) name += static_cast<char>(toupper(*c));
  return name;
}

std::string flag_name(const OptionInfo& option) {
  std::string name = "--";
  for (const char* c = option.name; *c != '\0'; ++c) name += *c == '_' ? '-' : *c;
  return name;
}

std::string flag_usage(const OptionInfo& option) {
  const std::string value = form_of(option.type).placeholder;
  return flag_name(option) + (takes_value(option) ? " " + value : "[=" + value + "]");
}

std::string default_text(const OptionInfo& option) {
  return *option.fallback == '\0' ? "none" : option.fallback;
}

bool takes_value(const OptionInfo& option) {
  return option.type != OptionType::kSwitch && option.type != OptionType::kStats;
}

void add_option_flags(CLI::App& app, std::vector<Setting>& settings) {
  for (size_t i = 0; i < kOptionCount; ++i) {
    const OptionInfo& option = kOptions[i];
    const auto keep = [&settings, i](const std::string& value) {
      settings.push_back({static_cast<OptionId>(i), value});
    };
    CLI::Option* flag = app.add_option_function<std::string>(flag_name(option), keep, option.help);
    flag->type_name(form_of(option.type).placeholder);
    // Without '=' a switch means on.
    if (!takes_value(option)) flag->expected(0, 1)->default_str("on");
    flag->take_last()->check([&option](const std::string& v) { return objection(option, v); });
  }
}

void apply(const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    const OptionInfo& option = kOptions[static_cast<size_t>(setting.id)];
    const bool is_path = option.type == OptionType::kPath;
    const std::string value = is_path ? writable_file(option, setting.value) : setting.value;
    setenv(variable_name(option).c_str(), value.c_str(), 1);
  }
}

}  // namespace rdmalloc::cli
