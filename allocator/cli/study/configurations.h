// What a study compares: allocators, and ways to run ours. Caps that are shares of the program's
// own peak are known only when it has run pinned once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/cli/study/allocators.h"

namespace rdmalloc::cli::study {

// A cap to try, which is for each process: bytes, or a share of the most that one of the program's
// processes held when it ran pinned.
struct Cap {
  std::string text;  // as it was given
  uint64_t value = 0;
  bool is_share = false;  // of the peak, in percent
  uint64_t bytes_of(uint64_t peak_held) const;
};

// "25%,64M". Throws Refusal for what is neither a share from 1 % nor an amount of bytes.
std::vector<Cap> parse_caps(const std::string& list);

struct Configuration {
  std::string name;   // unique in a study
  std::string label;  // for people
  Allocator allocator;
  bool pinned = false;
  std::optional<uint64_t> cap_bytes;
  std::vector<std::pair<std::string, std::string>> variables;  // to set for the program
};

// Without caps: each allocator, ours unpinned and pinned. In the order in which they are run.
std::vector<Configuration> configurations_of(const std::vector<Allocator>& allocators);

// Ours, pinned, with this cap.
Configuration capped(const Allocator& ours, const Cap& cap, uint64_t peak_held);

// "NAME=VALUE" of an option (memory_cap=1G, huge=thp): ours, pinned, with it set. Throws Refusal
// for an unknown option or a malformed value.
Configuration with_option(const Allocator& ours, const std::string& assignment);

// 67108864 as "64 MiB", 1234567 as "1.18 MiB".
std::string human_bytes(uint64_t bytes);

inline constexpr const char* kPinnedName = "rdmalloc";
inline constexpr const char* kUnpinnedName = "rdmalloc-unpinned";

}  // namespace rdmalloc::cli::study
