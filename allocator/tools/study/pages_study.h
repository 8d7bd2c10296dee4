// The prose of the page on `rdmalloc study`.
#pragma once

#include <vector>

#include "allocator/tools/page.h"

namespace rdmalloc::cli {

std::vector<Page> study_pages();

}  // namespace rdmalloc::cli
