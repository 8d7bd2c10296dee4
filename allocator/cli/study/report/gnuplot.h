// Runs gnuplot, which is a program of its own that need not be there.
#pragma once

#include <string>

namespace rdmalloc::cli::report {

struct GnuplotOutcome {
  bool found = true;
  std::string problem;  // a line; empty when all went well
};

// Runs gnuplot on `script` in `folder`, for a limited time. Found on PATH.
GnuplotOutcome run_gnuplot(const std::string& folder, const std::string& script);

}  // namespace rdmalloc::cli::report
