// The page kinds that memory is acquired with: 4K, thp, hugetlb.
#pragma once

#include <cstddef>
#include <string>

namespace rdmalloc::bench {

// Our option that selects it: NAME=value.
std::string huge_option(const std::string& kind);

// False if this machine does not have that many bytes in such pages; prints a line about it.
bool has_pages(const std::string& kind, size_t bytes);

}  // namespace rdmalloc::bench
