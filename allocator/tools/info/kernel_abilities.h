// Which newer abilities the kernel here has, found by trying: a container may forbid what the
// version promises, and distributions bring abilities to older versions.
#pragma once

#include <string>
#include <vector>

namespace rdmalloc::cli {

struct Ability {
  std::string name;
  std::string since;    // the version of Linux that brought it
  int error = 0;        // errno of the attempt; 0: it works
  std::string without;  // what is done where it does not
  bool works() const { return error == 0; }
};

// Each is tried in a child process that may come to harm.
std::vector<Ability> kernel_abilities();

}  // namespace rdmalloc::cli
