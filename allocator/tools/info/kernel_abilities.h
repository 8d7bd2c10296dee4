// What the kernel here can do of what came with newer versions, found out by having it done: a
// container may forbid what the version promises, and distributions bring things to older ones.
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
Ability populates();            // MADV_POPULATE_WRITE
Ability locks_on_fault();       // mlock2
Ability copies_pins_at_fork();  // a registration stays right when its process forks and writes
Ability moves_locked_pages();   // mremap takes pages, and their locks, along
Ability seals();                // mseal
Ability places();               // mbind
Ability has_io_uring();
Ability has_userfaultfd();

// All of these.
std::vector<Ability> kernel_abilities();

}  // namespace rdmalloc::cli
