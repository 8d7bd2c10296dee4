// What the kernel says of itself and of this process. A file that is missing or may not be read is
// an empty answer, never an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdmalloc::cli {

std::optional<std::string> read_text(const std::string& path);  // trailing newline removed
std::optional<uint64_t> read_count(const std::string& path);

// The chosen word of a file such as "always [madvise] never".
std::optional<std::string> read_choice(const std::string& path);

std::string kernel_version();

// Effective for this process; `capability` as in linux/capability.h.
bool has_capability(int capability);

struct NumaNode {
  unsigned index = 0;
  uint64_t memory = 0;  // bytes
  int processors = 0;
};

// From hwloc; at least one node on any machine it knows.
std::vector<NumaNode> numa_nodes();

}  // namespace rdmalloc::cli
