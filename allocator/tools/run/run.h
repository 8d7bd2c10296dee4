// `rdmalloc run`: starts a program under the library, in the same process, so that its process id,
// exit status, signals and terminal are those that its caller sees.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "allocator/tools/run/option_flags.h"
#include "allocator/tools/run/shim.h"

namespace rdmalloc::cli {

struct RunRequest {
  std::vector<Setting> settings;
  std::vector<std::string> command;         // the program and its arguments
  std::array<bool, kShims.size()> shims{};  // which of kShims
  bool share_remote = false;  // that of verbs: answer registrations with remote rights, too
};

// Does not return: the program takes this process's place, or a Refusal is thrown.
[[noreturn]] void run(const RunRequest& request);

}  // namespace rdmalloc::cli
