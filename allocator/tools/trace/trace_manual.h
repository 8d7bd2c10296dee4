#pragma once

#include <vector>

#include "allocator/tools/manual_page.h"

namespace rdmalloc::cli {

// "trace", and "trace VERB" for each verb.
std::vector<ManualPage> trace_pages();

}  // namespace rdmalloc::cli
