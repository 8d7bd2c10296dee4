// The allocators that a program can be put under without changing it: found where they are
// installed, put in front of what it preloads.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdmalloc::cli::study {

struct Allocator {
  std::string name;     // as --allocators and --under take it
  std::string library;  // to preload, an absolute path; empty: libc's own malloc
  bool ours = false;    // takes RDMALLOC_* and tells its counters
};

// glibc, jemalloc, mimalloc, tcmalloc, rdmalloc: all that have a name, installed or not.
const std::vector<std::string>& allocator_names();

// Nothing: not installed. Throws Refusal for a name that is none of them.
std::optional<Allocator> look_for_allocator(const std::string& name);

// The same, and a Refusal that says which package has it when it is not installed.
Allocator find_allocator(const std::string& name);

// What LD_PRELOAD must be for it, empty for nothing: what `before` names is kept, but for
// allocators that are known here, of which a process can use only one.
std::string preload_for(const Allocator& allocator, const std::string& before);

// "glibc,rdmalloc" as its names, each once. Throws Refusal for an unknown one.
std::vector<std::string> parse_allocators(const std::string& list);

}  // namespace rdmalloc::cli::study
