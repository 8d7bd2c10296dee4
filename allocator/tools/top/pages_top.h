#pragma once

#include <vector>

#include "allocator/tools/page.h"

namespace rdmalloc::cli {

// "top" and "stats": who has what, from outside.
std::vector<Page> top_pages();

}  // namespace rdmalloc::cli
