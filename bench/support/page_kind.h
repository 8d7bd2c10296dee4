// The page kinds that memory is acquired with: 4K, thp, hugetlb.
#pragma once

#include <cstddef>
#include <string>

namespace rdmalloc::bench {

// Our option for it: NAME=value.
std::string huge_option(const std::string& kind);

// False when this machine has no such pages for so many bytes, and a line says so.
bool has_pages(const std::string& kind, size_t bytes);

}  // namespace rdmalloc::bench
