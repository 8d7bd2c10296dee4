// rdmalloc-replay: repeats the calls of a packed trace. Preload an allocator to see how it handles
// them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/os/file.h"
#include "allocator/trace/replay.h"

namespace rdmalloc::trace {
namespace {

// Exit statuses.
constexpr int kReplayed = 0;
constexpr int kFailed = 1;   // the allocator failed
constexpr int kRefused = 2;  // nothing was replayed
constexpr int kTruncated = 3;

constexpr char kUsage[] =
    "usage: rdmalloc-replay [--touch all|none] [--check] [--times] [--repeat N] FILE\n";

// Not stdio, which allocates its buffers.
void say(int fd, const char* text) { (void)os::write_all(fd, text, strlen(text)); }

int refuse(const char* what, const char* which) {
  char text[640];
  snprintf(text, sizeof text, "rdmalloc-replay: %s%.512s\n", what, which);
  say(STDERR_FILENO, text);
  return kRefused;
}

bool parse_repeat(const char* word, unsigned* repeat) {
  uint64_t number = 0;
  os::Text rest;
  if (!os::parse_decimal(os::text(word), &number, &rest) || rest.size != 0) return false;
  *repeat = static_cast<unsigned>(number);
  return number >= 1 && number <= 1'000'000;
}

// Returns 0, or the exit status.
int parse(int argc, char** argv, ReplayOptions* options) {
  for (int i = 1; i < argc; ++i) {
    const char* word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(word, "--check") == 0) {
      options->check = true;
    } else if (strcmp(word, "--times") == 0) {
      options->times = true;
    } else if (strcmp(word, "--touch") == 0) {
      options->touch = strcmp(value, "all") == 0;
      if (!options->touch && strcmp(value, "none") != 0) {
        return refuse("--touch: give all or none, not ", value);
      }
      ++i;
    } else if (strcmp(word, "--repeat") == 0) {
      if (!parse_repeat(value, &options->repeat)) {
        return refuse("--repeat: give a number from 1 to 1000000, not ", value);
      }
      ++i;
    } else if (word[0] == '-' && word[1] != 0) {
      return refuse("there is no option ", word);
    } else if (options->path != nullptr) {
      return refuse("one trace at a time, and not also ", word);
    } else {
      options->path = word;
    }
  }
  return options->path != nullptr ? 0 : refuse("no trace was named", "");
}

double seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

void report(const Replay::Result& result, const ReplayOptions& options) {
  char text[512];
  snprintf(
      text, sizeof text,
      "replayed %llu events of %llu threads, %u times, in %.6f s (and %.6f s for reading them; "
      "%llu changes of thread): peak of %llu bytes asked for in %llu objects, digest %016llx\n",
      static_cast<unsigned long long>(result.counts.events),
      static_cast<unsigned long long>(result.counts.threads), options.repeat, seconds(result.ns),
      seconds(result.reading_ns), static_cast<unsigned long long>(result.handovers),
      static_cast<unsigned long long>(result.counts.peak_bytes),
      static_cast<unsigned long long>(result.counts.objects),
      static_cast<unsigned long long>(result.digest));
  say(STDOUT_FILENO, text);
}

int replay(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    say(STDOUT_FILENO, kUsage);
    return kReplayed;
  }
  ReplayOptions options;
  if (const int status = parse(argc, argv, &options)) {
    say(STDERR_FILENO, kUsage);
    return status;
  }
  Replay trace(options);
  if (!trace.open()) return refuse(trace.error(), "");
  if (!trace.run()) {
    refuse(trace.error(), "");
    return kFailed;
  }
  report(trace.result(), options);
  if (!trace.truncated()) return kReplayed;
  refuse(options.path, ": the trace is cut off: what there is of it was replayed");
  return kTruncated;
}

}  // namespace
}  // namespace rdmalloc::trace

int main(int argc, char** argv) { return rdmalloc::trace::replay(argc, argv); }
