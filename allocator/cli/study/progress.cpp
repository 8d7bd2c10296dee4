#include "allocator/cli/study/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace rdmalloc::cli::study {
namespace {

constexpr size_t kBarWidth = 24;

// Returns to the start of the line and erases it.
constexpr const char* kClearLine = "\r\033[K";

std::string bar(size_t done, size_t all) {
  const size_t full = all == 0 ? kBarWidth : std::min(kBarWidth, done * kBarWidth / all);
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "]";
}

}  // namespace

Progress::Progress(bool quiet, size_t runs)
    : quiet_(quiet), on_terminal_(isatty(STDERR_FILENO) == 1), runs_(runs) {}

void Progress::begin(const std::string& configuration, unsigned repeat, unsigned repeats) {
  if (quiet_ || !on_terminal_) return;
  clear();
  fprintf(stderr, "%s %zu of %zu runs; now %s, %u of %u", bar(done_, runs_).c_str(), done_, runs_,
          configuration.c_str(), repeat, repeats);
  fflush(stderr);
  drawn_ = true;
}

void Progress::end(const Run& run) {
  ++done_;
  if (quiet_ || on_terminal_) return;
  fprintf(stderr, "%zu/%zu %s, %u: %s, %.3f s, peak %s\n", done_, runs_, run.configuration.c_str(),
          run.repeat, run.outcome.c_str(), run.seconds,
          human_bytes(run.samples.peak_resident).c_str());
}

void Progress::say(const std::string& sentence) {
  clear();
  if (!quiet_) fprintf(stderr, "rdmalloc study: %s\n", sentence.c_str());
}

void Progress::clear() {
  if (drawn_) fputs(kClearLine, stderr);
  drawn_ = false;
}

}  // namespace rdmalloc::cli::study
