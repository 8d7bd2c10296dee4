#include "allocator/tools/child.h"
#include "allocator/tools/study/study.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "allocator/tools/interrupts.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/study/allocators.h"
#include "allocator/tools/study/document.h"
#include "allocator/tools/study/output_folder.h"
#include "allocator/tools/study/progress.h"
#include "allocator/tools/study/report/report.h"
#include "allocator/tools/study/study_plan.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::study {
namespace {

constexpr const char* kRuns = "runs.csv";
constexpr const char* kSamples = "samples.csv";
constexpr const char* kDocument = "study.json";
constexpr const char* kOutputs = "output";  // the program's own output

// A larger share of a processor is worth a note, in runs long enough for a share to mean much.
constexpr double kTooDear = 0.01;
constexpr double kShortSeconds = 1;
constexpr size_t kFewSamples = 6;

// The common prefix of the two files that a run's output goes to.
std::string output_name(const Configuration& configuration, unsigned repeat) {
  std::string name = configuration.name + "." + std::to_string(repeat);
  std::ranges::replace(name, '/', '_');  // --set may have a path
  return std::string(kOutputs) + "/" + name;
}

// The caller may have closed these: the first files of the study would get their numbers, and
// printed output would go there.
void keep_standard_streams() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDWR);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

class StudyRunner {
 public:
  StudyRunner(const StudyRequest& request, const StudyPlan& plan);
  int carry_out();

 private:
  void run_all();
  void run_one(const Configuration& configuration, unsigned repeat);
  void note(const std::string& sentence);
  void add_caps();
  void write_results();
  Launch launch_of(const Configuration& configuration, unsigned repeat) const;
  void add_notes();
  void begin_folder();
  void stop_at(const std::exception& problem);
  int status();

  const StudyRequest& request_;
  const StudyPlan& plan_;
  Study study_;
  std::vector<Cap> caps_;  // that have no configuration yet
  std::optional<OutputFolder> folder_;
  std::optional<Progress> progress_;
  Interrupts interrupts_{SIGINT, SIGTERM, SIGHUP};
  ProcessTree tree_;
  bool stopped_ = false;
};

StudyRunner::StudyRunner(const StudyRequest& request, const StudyPlan& plan)
    : request_(request), plan_(plan), caps_(plan.caps) {
  study_.command = plan.command;
  study_.date = time_text();
  study_.machine = this_machine();
  study_.rate_hz = request.rate_hz;
  study_.repeats = static_cast<unsigned>(request.repeats);
  study_.configurations = plan.configurations;
  study_.notes = plan.notes;
}

Launch StudyRunner::launch_of(const Configuration& configuration, unsigned repeat) const {
  Launch launch;
  launch.program = plan_.program;
  launch.command = study_.command;
  launch.variables = configuration.variables;
  // Count from the start, even in small processes.
  launch.variables.emplace_back("RDMALLOC_COUNTERS_FROM", "1");
  launch.preloads = preload_for(configuration.allocator, preloads());
  launch.input = request_.input;
  const std::string name = output_name(configuration, repeat);
  launch.output = folder_->file(name + ".stdout");
  launch.errors = folder_->file(name + ".stderr");
  return launch;
}

void StudyRunner::run_one(const Configuration& configuration, unsigned repeat) {
  progress_->begin(configuration.name, repeat, study_.repeats);
  const RunLimits limits{request_.rate_hz, request_.linger_seconds, request_.timeout_seconds};
  Run run = ProgramRun(limits, tree_, interrupts_, [this] {
              progress_->tick();
            }).run(launch_of(configuration, repeat), configuration.allocator.ours);
  run.configuration = configuration.name;
  run.repeat = repeat;
  study_.runs.push_back(run);
  progress_->end(run);
  const std::string which = configuration.name + ", run " + std::to_string(repeat) + ": ";
  if (!run.left_behind.empty()) note(which + run.left_behind);
  if (!run.ok)
    note(which + run.outcome + "; see " + output_name(configuration, repeat) + ".stderr");
  folder_->append(kRuns, runs_line(run));
  folder_->append(kSamples, samples_lines(run));
}

void StudyRunner::note(const std::string& sentence) {
  study_.notes.push_back(sentence);
  progress_->say(sentence);
}

// Turns shares of a peak into configurations, once the program has run pinned.
void StudyRunner::add_caps() {
  uint64_t peak_held = 0;
  for (const Run& run : study_.runs) {
    if (run.configuration != kPinnedName) continue;
    peak_held = std::max(peak_held, run.samples.peak_held_by_one);
  }
  for (const Cap& cap : caps_) {
    if (!cap.is_share || peak_held != 0) {
      study_.configurations.push_back(capped(*plan_.ours, cap, peak_held));
      continue;
    }
    study_.notes.push_back("a cap of " + cap.text +
                           " was not tried: how much the program holds could not be seen");
    progress_->drop(study_.repeats);
  }
  caps_.clear();
}

void StudyRunner::run_all() {
  for (unsigned repeat = 1; repeat <= study_.repeats; ++repeat) {
    // Caps are added during the loop.
    for (size_t i = 0; i < study_.configurations.size(); ++i) {
      if (interrupts_.pending() != 0) return;
      run_one(Configuration(study_.configurations[i]), repeat);
      if (repeat == 1 && i + 1 == study_.configurations.size() && interrupts_.pending() == 0) {
        add_caps();
      }
    }
  }
}

// Adds what a reader should know about how the figures came about.
void StudyRunner::add_notes() {
  uint64_t left_out = 0;
  double share = 0;
  unsigned processes = 0;
  for (const Run& run : study_.runs) {
    left_out += run.samples.left_out;
    processes = std::max(processes, run.samples.processes);
    if (run.seconds > kShortSeconds) share = std::max(share, run.sampling_cpu_share);
  }
  const bool few = std::ranges::any_of(
      study_.runs, [](const Run& run) { return run.samples.series.size() < kFewSamples; });
  if (few) {
    study_.notes.emplace_back(
        "some runs were over after few samples: their figures of memory are lower bounds");
  }
  if (left_out != 0) {
    study_.notes.push_back(std::to_string(left_out) +
                           " samples were left out, so that sampling took no more than its share");
  }
  if (share > kTooDear) {
    study_.notes.push_back("sampling took up to " + format("%.2f %% of a processor", share * 100));
  }
  if (processes > 1) {
    study_.notes.emplace_back(
        "a cap is for each process: shares are of the most that one of them held");
    study_.notes.emplace_back(
        "the program has several processes: resident is the sum over them, in which pages that "
        "they share count once for each, and peaks are the highest sums that were sampled");
  }
}

void StudyRunner::write_results() {
  add_notes();
  const nlohmann::json document = as_document(study_);
  folder_->write(kDocument, document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  write_report(document, *folder_);
  for (const std::string& note : write_plots(document, *folder_)) progress_->say(note);
  for (const nlohmann::json& answer : document["summary"]["answers"]) {
    printf("%s\n", answer.get<std::string>().c_str());
  }
  printf("The report: %s\n", folder_->file("report.html").c_str());
}

int StudyRunner::status() {
  if (interrupts_.pending() != 0) return kExitInterrupted;
  if (stopped_) return kExitProblem;
  const bool all_ok = std::ranges::all_of(study_.runs, &Run::ok);
  return all_ok ? kExitOk : kExitSomeFailed;
}

// Only the first problem matters, and it ends the study; the results so far are written.
void StudyRunner::stop_at(const std::exception& problem) {
  stopped_ = true;
  study_.notes.emplace_back(std::string("the study was ended early: ") + problem.what());
  progress_->say(problem.what());
}

void StudyRunner::begin_folder() {
  try {
    folder_->make_folder(kOutputs);
    folder_->append(kRuns, runs_header());
    folder_->append(kSamples, samples_header());
  } catch (const WriteFailure& failure) {
    folder_->abandon();
    throw Refusal(failure.what());
  }
}

int StudyRunner::carry_out() {
  folder_.emplace(
      request_.output.empty() ? default_output_path(plan_.program, study_.date) : request_.output,
      request_.force);
  progress_.emplace(request_.quiet, (study_.configurations.size() + caps_.size()) * study_.repeats);
  begin_folder();
  try {
    run_all();
  } catch (const std::runtime_error& problem) {
    if (study_.runs.empty()) {
      folder_->abandon();
      throw;
    }
    stop_at(problem);
  }
  try {
    write_results();
  } catch (const std::runtime_error& problem) {
    stop_at(problem);
  }
  return status();
}

}  // namespace

int run_study(const StudyRequest& request) {
  keep_standard_streams();
  const StudyPlan plan = make_plan(request);
  return StudyRunner(request, plan).carry_out();
}

}  // namespace rdmalloc::cli::study
