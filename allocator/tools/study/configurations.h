// What a study compares: allocators, and ways to run ours. Caps that are shares of the program's
// own peak become known only after it has run pinned once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/tools/study/allocators.h"

namespace rdmalloc::cli::study {

// A cap to try, per process: bytes, or a share of the most that one of the program's processes held
// when it ran pinned.
struct Cap {
  std::string text;  // as it was given
  uint64_t value = 0;
  bool is_share = false;  // of the peak, in percent
  uint64_t bytes_of(uint64_t peak_held) const;
};

// Parses "25%,64M". Throws Refusal for anything but a share from 1 % or an amount of bytes.
std::vector<Cap> parse_caps(const std::string& list);

struct Configuration {
  std::string name;   // unique in a study
  std::string label;  // for people
  Allocator allocator;
  bool pinned = false;
  std::optional<uint64_t> cap_bytes;
  std::vector<std::pair<std::string, std::string>> variables;  // to set for the program
};

// Without caps, in the order in which they run: each allocator, ours unpinned and pinned.
std::vector<Configuration> configurations_of(const std::vector<Allocator>& allocators);

// Ours, pinned, with this cap.
Configuration capped(const Allocator& ours, const Cap& cap, uint64_t peak_held);

// Ours, pinned, with the option of "NAME=VALUE" set (memory_cap=1G, huge=thp). Throws Refusal for
// an unknown option or a malformed value.
Configuration with_option(const Allocator& ours, const std::string& assignment);

inline constexpr const char* kPinnedName = "rdmalloc";
inline constexpr const char* kUnpinnedName = "rdmalloc-unpinned";

}  // namespace rdmalloc::cli::study
