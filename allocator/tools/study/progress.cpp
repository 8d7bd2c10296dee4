#include "allocator/tools/study/progress.h"

#include <algorithm>
#include <cstdio>

#include "allocator/os/clock.h"
#include "allocator/tools/terminal.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::study {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

// Returns to the start of the line and erases it.
constexpr const char* kClearLine = "\r\033[K";

// In the unit in which it is not a large number.
std::string about(uint64_t nanoseconds) {
  const uint64_t seconds = std::max<uint64_t>(nanoseconds / kSecondNs, 1);
  if (seconds < 120) return "about " + std::to_string(seconds) + " s";
  if (seconds < 120UL * 60) return "about " + std::to_string(seconds / 60) + " min";
  return "about " + std::to_string(seconds / 3600) + " h";
}

}  // namespace

Progress::Progress(bool quiet, size_t runs)
    : quiet_(quiet), on_terminal_(is_screen(STDERR_FILENO)), runs_(runs) {}

void Progress::begin(const std::string& configuration, unsigned repeat, unsigned repeats) {
  now_ = configuration + ", " + std::to_string(repeat) + " of " + std::to_string(repeats);
  begin_ns_ = os::now_ns();
  if (first_begin_ns_ == 0) first_begin_ns_ = begin_ns_;
  if (!quiet_ && on_terminal_) draw(begin_ns_);
}

void Progress::tick() {
  const uint64_t now = os::now_ns();
  if (drawn_ns_ != 0 && now - drawn_ns_ >= kSecondNs) draw(now);
}

// Takes what remains to last as long in the mean as the runs that are done.
void Progress::draw(uint64_t now_ns) {
  std::string line = "run " + std::to_string(done_ + 1) + " of " + std::to_string(runs_);
  if (done_ != 0) {
    const uint64_t mean = (begin_ns_ - first_begin_ns_) / done_;
    const uint64_t of_this = mean - std::min(mean, now_ns - begin_ns_);
    line += ", " + about(mean * (runs_ - done_ - 1) + of_this) + " left";
  }
  line += ": " + now_;
  // In the last column some terminals would begin another line.
  line = line.substr(0, columns_of(STDERR_FILENO) - 1);
  fprintf(stderr, "%s%s", kClearLine, line.c_str());
  drawn_ns_ = now_ns;
}

void Progress::end(const Run& run) {
  ++done_;
  clear();
  if (quiet_ || on_terminal_) return;
  fprintf(stderr, "%zu/%zu %s, %u: %s, %.3f s, peak %s\n", done_, runs_, run.configuration.c_str(),
          run.repeat, run.outcome.c_str(), run.seconds,
          size_text(run.samples.peak_resident).c_str());
}

void Progress::say(const std::string& sentence) {
  clear();
  if (!quiet_) fprintf(stderr, "rdmalloc study: %s\n", sentence.c_str());
}

void Progress::clear() {
  if (drawn_ns_ != 0) fputs(kClearLine, stderr);
  drawn_ns_ = 0;
}

}  // namespace rdmalloc::cli::study
