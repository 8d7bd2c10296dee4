// The option table (allocator/limits/options.def) as flags of the command line: memory_cap is
// --memory-cap.
#pragma once

#include <string>
#include <vector>

#include "allocator/limits/options.h"

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct Setting {
  OptionId id;
  std::string value;
};

inline os::Text os_text(const std::string& value) { return {value.data(), value.size()}; }

std::string variable_name(const OptionInfo& option);  // RDMALLOC_MEMORY_CAP
std::string flag_name(const OptionInfo& option);      // --memory-cap
std::string flag_usage(const OptionInfo& option);     // --memory-cap AMOUNT, --strict[=on|off]
std::string default_text(const OptionInfo& option);   // 95%; "none" for an empty one
bool takes_value(const OptionInfo& option);           // the next word is its value

// Adds a flag for each option; parsing appends what was given to `settings` in order. A malformed
// value is a parse error that says what would be well-formed.
void add_option_flags(CLI::App& app, std::vector<Setting>& settings);

// Sets the variables in this process's environment. The report's path becomes absolute: the program
// may change its folder before it writes it. Throws Refusal when the report could not be written.
void apply(const std::vector<Setting>& settings);

}  // namespace rdmalloc::cli
