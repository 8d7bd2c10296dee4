#pragma once

namespace rdmalloc::cli {

// Prints what is in force here. The exit status.
int info(bool json);

}  // namespace rdmalloc::cli
