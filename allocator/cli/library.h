// Where the library lies that this command preloads.
#pragma once

#include <string>

namespace rdmalloc::cli {

// This command's own file, symbolic links resolved.
std::string own_path();

// The absolute path of librdmalloc.so beside this command: in ../lib, or where the installation put
// libraries. Throws Refusal when it is not there, or when ld.so could not be told its name.
std::string find_library();

// Prepends the library to LD_PRELOAD in this process's environment and keeps what is there.
void preload(const std::string& library);

}  // namespace rdmalloc::cli
