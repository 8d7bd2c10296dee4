#pragma once

namespace rdmalloc::cli {

// Prints what this system allows and how to change it; `explain_all`: also explains what is ok.
// Returns the exit status.
int doctor(bool json, bool explain_all);

}  // namespace rdmalloc::cli
