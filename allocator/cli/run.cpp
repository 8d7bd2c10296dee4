#include "allocator/cli/run.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "allocator/cli/library.h"
#include "allocator/cli/program.h"
#include "allocator/cli/refusal.h"
#include "allocator/options.h"

namespace rdmalloc::cli {
namespace {

bool warnings_wanted() {
  Options options;
  options.load();
  return options.on(OptionId::warn);
}

}  // namespace

void run(const RunRequest& request) {
  if (request.command.empty()) {
    throw Refusal("no program was named: rdmalloc run [options] [--] PROGRAM ARGS...");
  }
  const std::string program = find_program(request.command.front());
  const std::string library = find_library();
  const std::vector<std::string> notes = check_preloadable(program, library);
  apply(request.settings);
  preload(library);
  if (warnings_wanted()) {
    for (const std::string& note : notes) fprintf(stderr, "rdmalloc run: %s\n", note.c_str());
  }
  std::vector<char*> arguments;
  for (const std::string& word : request.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw Refusal(program + ": " + strerror(errno),
                errno == ENOENT ? kExitNotFound : kExitNotExecutable);
}

}  // namespace rdmalloc::cli
