// Finds the library that this command preloads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "allocator/tools/run/shim.h"

namespace rdmalloc::cli {

// This command's own file, symbolic links resolved.
std::string own_path();

// The absolute path of librdmalloc.so beside this command: in ../lib, or where the installation put
// libraries. Throws Refusal if it is not there, or if its name cannot be passed to ld.so.
std::string find_library();

// The same for a shim, which lies beside it where it was built.
std::string find_shim(const Shim& shim);
// It is there.
bool has_shim(const Shim& shim);

// The same for the library that records allocations.
std::string find_recorder();

// The libraries, and then those of `before` that `is_dropped` does not say.
std::string preloads_with(const std::vector<std::string>& libraries, const std::string& before,
                          const std::function<bool(const std::string&)>& is_dropped);

// Puts the libraries in front there, and keeps what is there.
void preload(const std::vector<std::string>& libraries);

}  // namespace rdmalloc::cli
