// The program that `run` is asked to start: found as a shell finds it, and checked for anything
// that would make ld.so silently ignore the preloaded library.
#pragma once

#include <string>
#include <vector>

namespace rdmalloc::cli {

// The file that `name` means: itself when it has a slash, else the first match on PATH. Throws
// Refusal: status 127 when there is none, 126 when it may not be executed.
std::string find_program(const std::string& name);

// Throws Refusal when the library would not be loaded into the program: it is statically linked, of
// another architecture or C library, or runs with rights that its caller does not have. A script is
// judged by its interpreter. Returns sentences the user should know that forbid nothing; `done` is
// what the library does to memory.
std::vector<std::string> check_preloadable(const std::string& program, const std::string& library,
                                           const std::string& done = "pinned");

// True when the program itself may load libibverbs and look functions up in it, instead of being
// linked with it: what is found that way cannot be preloaded over. Scripts: false.
bool loads_verbs_by_name(const std::string& program);

}  // namespace rdmalloc::cli
