#pragma once

#include <vector>

#include "allocator/tools/page.h"

namespace rdmalloc::cli {

// "trace", and "trace VERB" for each verb.
std::vector<Page> trace_pages();

}  // namespace rdmalloc::cli
