// The prose of the page on `rdmalloc study`.
#pragma once

#include <vector>

#include "allocator/tools/manual_page.h"

namespace rdmalloc::cli {

std::vector<ManualPage> study_pages();

}  // namespace rdmalloc::cli
