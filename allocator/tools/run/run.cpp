#include "allocator/tools/run/run.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "allocator/limits/options.h"
#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"
#include "allocator/tools/run/program.h"
#include "allocator/tools/run/watcher.h"

namespace rdmalloc::cli {
namespace {

// The libraries to preload, in the order in which ld.so should search them.
std::vector<std::string> libraries_for(const RunRequest& request) {
  if (request.share_remote && !request.shims[kVerbsShim]) {
    throw Refusal("--share-remote applies to the registrations of --verbs: give that, too");
  }
  std::vector<std::string> libraries{find_library()};
  for (size_t i = 0; i < kShims.size(); ++i) {
    // UCX's shim alone maps the whole heap, asked for or not.
    const bool helps_ucx = i == kVerbsShim && request.shims[kUcxShim] && has_shim(kShims[i]);
    if (request.shims[i] || helps_ucx) libraries.push_back(find_shim(kShims[i]));
  }
  return libraries;
}

// The last step that may be refused: afterwards there is one process more.
void watch_if_wanted(const Options& options) {
  const uint64_t seconds = options.choice(OptionId::report_every);
  if (seconds == 0) return;
  const std::string report = options.path(OptionId::report);
  if (report.empty()) throw Refusal("--report-every needs to know where: give --report FILE, too");
  // The program may change its working directory.
  apply({{OptionId::report, report}});
  start_watcher(std::chrono::seconds(seconds));
}

}  // namespace

void run(const RunRequest& request) {
  if (request.command.empty()) {
    throw Refusal("no program was named: rdmalloc run [options] [--] PROGRAM ARGS...");
  }
  const std::string program = find_program(request.command.front());
  const std::vector<std::string> libraries = libraries_for(request);
  std::vector<std::string> notes = check_preloadable(program, libraries.front());
  if (request.shims[kVerbsShim] && loads_verbs_by_name(program)) {
    notes.push_back(program +
                    " names libibverbs in its data: calls of functions that it finds there with "
                    "dlsym or dlvsym bypass the shim");
  }
  apply(request.settings);
  Options options;
  options.load();
  watch_if_wanted(options);
  if (request.share_remote) setenv("RDMALLOC_VERBS_SHARE_REMOTE", "on", 1);
  preload(libraries);
  if (options.on(OptionId::warn)) {
    for (const std::string& note : notes) fprintf(stderr, "rdmalloc run: %s\n", note.c_str());
  }
  const std::vector<char*> arguments = exec_list(request.command);
  execv(program.c_str(), arguments.data());
  throw Refusal(program + ": " + strerror(errno),
                errno == ENOENT ? kExitNotFound : kExitNotExecutable);
}

}  // namespace rdmalloc::cli
