// Runs gnuplot, a separate program that may not be installed.
#pragma once

#include <string>

namespace rdmalloc::cli::report {

struct GnuplotOutcome {
  bool found = true;
  std::string problem;  // one line; empty if all went well
};

// Runs gnuplot on `script` in `folder`, for a limited time. Found on PATH.
GnuplotOutcome run_gnuplot(const std::string& folder, const std::string& script);

}  // namespace rdmalloc::cli::report
