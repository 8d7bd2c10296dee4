#include "allocator/tools/trace/trace.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"
#include "allocator/tools/study/allocators.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplay = "rdmalloc-replay";
constexpr unsigned kMostRepeats = 1'000'000;

std::vector<std::string> words_of(const TraceReplayRequest& request) {
  std::vector<std::string> words{kReplay, "--touch", request.touch};
  if (request.check) words.push_back("--check");
  if (request.times) words.push_back("--times");
  words.insert(words.end(), {"--repeat", std::to_string(request.repeat)});
  // Protects a trace whose name begins with a dash from being read as an option.
  words.push_back(request.file.starts_with('-') ? "./" + request.file : request.file);
  return words;
}

}  // namespace

void add_trace_replay_flags(CLI::App& app, TraceReplayRequest& request) {
  app.add_option("--under", request.under,
                 "the allocator: " + joined(study::allocator_names(), "|") + " (default " +
                     request.under + ")")
      ->type_name("NAME");
  app.add_option("--touch", request.touch,
                 "all: write to each page of each block, as programs do; none (default all)")
      ->check(CLI::IsMember({"all", "none"}))
      ->type_name("WHAT");
  app.add_flag("--check", request.check,
               "write a pattern into each block and look for it before the block is freed");
  app.add_flag("--times", request.times,
               "make no call before the time at which it was recorded, instead of at once");
  app.add_option("--repeat", request.repeat,
                 "replay so many times in one process (default 1); between two what is still "
                 "alive is freed")
      ->check(CLI::Range(1U, kMostRepeats))
      ->type_name("NUMBER");
  add_option_flags(app, request.settings);
  app.add_option("file", request.file, "the trace")->required();
}

std::string find_replay() {
  const fs::path path = fs::path(own_path()).parent_path() / kReplay;
  std::error_code error;
  if (fs::exists(path, error)) return path;
  throw Refusal("cannot find " + path.string() +
                ": it belongs beside this command; install rdmalloc-tools");
}

int trace_replay(const TraceReplayRequest& request) {
  const std::string program = find_replay();
  const study::Allocator allocator = study::find_allocator(request.under);
  if (!allocator.ours && !request.settings.empty()) {
    throw Refusal(flag_name(kOptions[static_cast<size_t>(request.settings.front().id)]) +
                  " is an option of rdmalloc, and the trace is to be replayed under " +
                  request.under);
  }
  apply(request.settings);
  set_preloads(study::preload_for(allocator, preloads()));
  const std::vector<std::string> words = words_of(request);
  const std::vector<char*> arguments = exec_list(words);
  execv(program.c_str(), arguments.data());
  throw Refusal(program + ": " + strerror(errno), kExitNotExecutable);
}

}  // namespace rdmalloc::cli
