#pragma once

#include <vector>

#include "allocator/tools/manual_page.h"

namespace rdmalloc::cli {

// "top" and "stats": who has what, from outside.
std::vector<ManualPage> top_pages();

}  // namespace rdmalloc::cli
