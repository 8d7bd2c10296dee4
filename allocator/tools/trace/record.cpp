#include "allocator/tools/child.h"
#include "allocator/tools/trace/trace.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "allocator/limits/options.h"
#include "allocator/os/clock.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"
#include "allocator/tools/run/program.h"
#include "allocator/tools/study/allocators.h"
#include "allocator/tools/text.h"
#include "allocator/tools/trace/recorded_run.h"
#include "allocator/tools/trace/recording_report.h"
#include "allocator/trace/raw_format.h"
#include "allocator/trace/ticks.h"

namespace rdmalloc::cli {
namespace {

namespace fs = std::filesystem;
using trace::RawFile;

constexpr const char* kExtension = ".rdtrace";

uint64_t parse_limit(const std::string& text) {
  Amount amount;
  const bool parsed = parse_amount({text.data(), text.size()}, &amount);
  if (!parsed || amount.unit != Amount::Unit::kBytes || amount.value < trace::kSmallestLimit) {
    throw Refusal("--limit " + text + ": give bytes with K, M or G, from 64K up");
  }
  return amount.value;
}

std::string output_of(const TraceRecordRequest& request) {
  const fs::path name = request.output.empty()
                            ? fs::path(request.command.front()).filename().string() + kExtension
                            : request.output;
  std::string path = fs::absolute(name).lexically_normal();
  std::error_code error;
  if (fs::is_directory(path, error)) throw Refusal(path + " is a folder: name a file with -o");
  if (fs::exists(path, error) && access(path.c_str(), W_OK) != 0) {
    throw Refusal("cannot write a trace to " + path + ": " + strerror(errno) +
                  "; name another file with -o");
  }
  return path;
}

RecordedRun prepare(const TraceRecordRequest& request) {
  RecordedRun run;
  run.program = find_program(request.command.front());
  run.command = request.command;
  run.limit = parse_limit(request.limit);
  run.recorder = find_recorder();
  for (const std::string& note : check_preloadable(run.program, run.recorder, "recorded")) {
    fprintf(stderr, "rdmalloc trace record: %s\n", note.c_str());
  }
  run.preloads = preloads();
  if (!request.under.empty()) {
    run.preloads = study::preload_for(study::find_allocator(request.under), run.preloads);
  }
  return run;
}

// The recordings of all processes, those with the most calls first.
std::vector<RawFile> find_recordings(const std::string& folder) {
  std::vector<RawFile> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    try {
      found.emplace_back(entry.path());
    } catch (const std::runtime_error&) {
      // The process was killed before it had begun: the file is empty.
    }
  }
  std::ranges::stable_sort(found, std::greater<>(), &RawFile::units);
  return found;
}

// Moves the requested recordings to the front; returns how many there are.
size_t choose(const TraceRecordRequest& request, std::vector<RawFile>& recordings) {
  if (request.all) return recordings.size();
  if (request.process.empty()) return std::min<size_t>(1, recordings.size());
  for (RawFile& one : recordings) {
    if (one.name() != request.process) continue;
    std::swap(one, recordings.front());
    return 1;
  }
  return 0;
}

std::string explain_nothing(const TraceRecordRequest& request,
                            const std::vector<RawFile>& recordings) {
  if (recordings.empty()) {
    return "nothing was recorded: the program made no malloc call that a preloaded library sees, "
           "or cleared its environment first";
  }
  std::vector<std::string> names;
  for (const RawFile& one : recordings) {
    if (std::ranges::find(names, one.name()) == names.end()) names.push_back(one.name());
  }
  return "no process of the name " + request.process +
         " was recorded; there were: " + joined(names);
}

// OUT.rdtrace, or with --all for example OUT.1234.0.rdtrace for the first image of process 1234.
std::string output_for(const RawFile& one, const std::string& output, bool all) {
  if (!all) return output;
  const fs::path path = output;
  const std::string process = fs::path(one.path()).filename();
  return path.parent_path() / (path.stem().string() + "." + process + path.extension().string());
}

// Deletes the others before anything is written: they may have filled the disk.
void drop_others(std::vector<RawFile>& recordings, size_t chosen) {
  for (size_t i = chosen; i < recordings.size(); ++i) unlink(recordings[i].path().c_str());
}

class Clock {
 public:
  double ns_per_tick() const {
    constexpr uint64_t kLongEnough = 20'000'000;
    while (os::now_ns() - ns_ < kLongEnough) usleep(1000);
    const auto ticks = static_cast<double>(trace::now_ticks() - ticks_);
    return static_cast<double>(os::now_ns() - ns_) / ticks;
  }

 private:
  uint64_t ticks_ = trace::now_ticks();
  uint64_t ns_ = os::now_ns();
};

bool pack_one(const RawFile& one, const std::string& output, double ns_per_tick,
              RecordingReport& report) {
  try {
    trace::Writer writer(output, one.program());
    report.add(one, output, trace::pack(one, ns_per_tick, writer));
    return true;
  } catch (const std::exception& error) {
    fprintf(stderr, "rdmalloc trace record: %s; what fits is kept\n", error.what());
    return false;
  }
}

}  // namespace

void add_trace_record_flags(CLI::App& app, TraceRecordRequest& request) {
  app.add_option("-o,--output", request.output, "the trace to write (default: PROGRAM.rdtrace)")
      ->type_name("FILE");
  app.add_option(
         "--limit", request.limit,
         "limit on what is recorded of a process before it is packed; beyond it recording stops "
         "and the program goes on (default: 1G)")
      ->type_name("BYTES");
  app.add_option(
         "--process", request.process,
         "the process to write a trace of, by its program's file name (default: the one that "
         "called malloc most)")
      ->type_name("NAME");
  app.add_flag("--all", request.all,
               "write a trace of every process, with its number in the file's name");
  app.add_option("--under", request.under,
                 "run the program under this allocator: glibc, jemalloc, mimalloc, tcmalloc or "
                 "rdmalloc (default: the one it has)")
      ->type_name("ALLOCATOR");
}

namespace {

struct Ending {
  int status;     // of the program
  bool complete;  // all requested traces were written
};

Ending record(const TraceRecordRequest& request) {
  if (request.command.empty()) {
    throw Refusal("no program was named: rdmalloc trace record [options] [--] PROGRAM ARGS...");
  }
  if (request.all && !request.process.empty()) {
    throw Refusal("--all and --process exclude each other: give one");
  }
  const std::string output = output_of(request);
  RecordedRun run = prepare(request);
  const RawFolder folder(output);
  run.folder = folder.path();
  const Clock clock;
  const RunEnd end = run_recorded(run);
  folder.give_space();
  std::vector<RawFile> recordings = find_recordings(folder.path());
  const size_t chosen = choose(request, recordings);
  if (chosen == 0) {
    fprintf(stderr, "rdmalloc trace record: %s\n", explain_nothing(request, recordings).c_str());
  }
  drop_others(recordings, chosen);
  RecordingReport report(end, recordings);
  size_t packed = 0;
  for (size_t i = 0; i < chosen; ++i) {
    const std::string file = output_for(recordings[i], output, request.all);
    if (pack_one(recordings[i], file, clock.ns_per_tick(), report)) ++packed;
    unlink(recordings[i].path().c_str());
  }
  if (packed != 0) {
    const RawFolder for_cost(output);
    run.folder = for_cost.path();
    report.print(cost_of_a_call(run, report.has_threads()));
  }
  return {end.status, chosen != 0 && packed == chosen};
}

}  // namespace

int trace_record(const TraceRecordRequest& request) {
  // By now the folder of raw files has been removed, whatever signal ends us.
  const Ending ending = record(request);
  const int status = end_as(ending.status);
  return status == kExitOk && !ending.complete ? kExitProblem : status;
}

}  // namespace rdmalloc::cli
