// The allocators that a program can run under unchanged: finds where they are installed, and puts
// them in front of what the program preloads.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdmalloc::cli::study {

struct Allocator {
  std::string name;     // as --allocators and --under take it
  std::string library;  // to preload, an absolute path; empty: libc's own malloc
  bool ours = false;    // takes RDMALLOC_* and publishes its counters
};

// glibc, jemalloc, mimalloc, tcmalloc, rdmalloc: all known names, installed or not.
const std::vector<std::string>& allocator_names();

// Nothing: not installed. Throws Refusal for an unknown name.
std::optional<Allocator> look_for_allocator(const std::string& name);

// The same, but throws a Refusal that names the package if it is not installed.
Allocator find_allocator(const std::string& name);

// The value of LD_PRELOAD for this allocator, empty for none. Keeps what `before` names, except
// allocators known here, because a process can use only one.
std::string preload_for(const Allocator& allocator, const std::string& before);

// Splits "glibc,rdmalloc" into its names, each once. Throws Refusal for an unknown one.
std::vector<std::string> parse_allocators(const std::string& list);

}  // namespace rdmalloc::cli::study
