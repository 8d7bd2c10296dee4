#include "allocator/tools/study/sampler.h"

#include <sys/wait.h>
#include <time.h>

#include <algorithm>

#include "allocator/os/clock.h"

namespace rdmalloc::cli::study {
namespace {

// Shares of one processor. The rest of kMostCpu is for what each sample does.
constexpr double kFindingCpu = 0.0015;
constexpr double kReadingCpu = 0.0008;
constexpr double kProportionalCpu = 0.0005;
// Ensures that a short run is sampled at all.
constexpr uint64_t kCreditNs = 1'000'000;
constexpr uint64_t kSmallCreditNs = 500'000;
// The assumed cost of walking page tables until it has been measured: base pages, far from the best
// case.
constexpr uint64_t kFirstWalkNsPerMib = 20'000;

uint64_t thread_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(used.tv_nsec);
}

class Charge {
 public:
  explicit Charge(Allowance& to) : to_(to), start_(thread_cpu_ns()) {}
  ~Charge() { to_.spend(spent()); }
  uint64_t spent() const { return thread_cpu_ns() - start_; }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  Allowance& to_;
  uint64_t start_;
};

void raise(uint64_t& peak, uint64_t value) { peak = std::max(peak, value); }

}  // namespace

Sampler::Sampler(ProcessTree& tree, bool under_library)
    : tree_(&tree),
      under_library_(under_library),
      all_(kMostCpu, kCreditNs),
      finding_(kFindingCpu, kSmallCreditNs),
      reading_(kReadingCpu, kSmallCreditNs),
      proportional_(kProportionalCpu, 0),
      walk_ns_per_mib_(kFirstWalkNsPerMib) {}

void Sampler::begin(uint64_t start_ns) {
  start_ns_ = start_ns;
  start_cpu_ns_ = thread_cpu_ns();
}

double Sampler::cpu_share() const {
  return static_cast<double>(thread_cpu_ns() - start_cpu_ns_) /
         static_cast<double>(os::now_ns() - start_ns_);
}

void Sampler::sample() {
  const uint64_t elapsed = os::now_ns() - start_ns_;
  if (tree_->may_have_grown() && finding_.allows(elapsed)) find_processes();
  read_processes(elapsed);
  read_some(elapsed);
  read_proportional(elapsed);
  add_sample(elapsed);
}

uint64_t Sampler::ready_ns() {
  // Not the sum of the samples' costs: waiting for the next one costs about as much.
  all_.set_spent(thread_cpu_ns() - start_cpu_ns_);
  return start_ns_ + all_.allowed_from();
}

void Sampler::find_processes() {
  const Charge charge(finding_);
  for (const pid_t pid : tree_->update()) {
    processes_.emplace(pid, std::make_unique<WatchedProcess>(pid, under_library_));
    ++found_.processes;
  }
}

void Sampler::read_processes(uint64_t elapsed_ns) {
  for (auto at = processes_.begin(); at != processes_.end();) {
    WatchedProcess& process = *at->second;
    if (process.read_resident()) {
      process.look_for_counters(elapsed_ns);
      ++at;
      continue;
    }
    retire(process);
    gone_.push_back(at->first);
    if (!process.has_number()) tree_->forget(at->first);
    at = processes_.erase(at);
  }
}

// The processes take turns, as long as the allowance lasts.
void Sampler::read_some(uint64_t elapsed_ns) {
  for (size_t i = 0; i < processes_.size() && reading_.allows(elapsed_ns); ++i) {
    const Charge charge(reading_);
    auto next = processes_.upper_bound(turn_);
    if (next == processes_.end()) next = processes_.begin();
    turn_ = next->first;
    next->second->read_faults();
    next->second->read_peak();
  }
}

void Sampler::read_proportional(uint64_t elapsed_ns) {
  uint64_t resident = 0;
  for (const auto& [pid, process] : processes_) resident += process->reading().resident;
  const uint64_t foreseen = (resident >> 20U) * walk_ns_per_mib_ + 20'000 * processes_.size();
  if (resident == 0 || !proportional_.allows(elapsed_ns, foreseen)) return;
  const Charge charge(proportional_);
  uint64_t sum = 0;
  for (const auto& [pid, process] : processes_) {
    if (process->read_proportional()) sum += process->reading().proportional.value_or(0);
  }
  found_.peak_proportional = std::max(found_.peak_proportional.value_or(0), sum);
  walk_ns_per_mib_ = charge.spent() / std::max<uint64_t>(resident >> 20U, 1) + 1;
}

// Adds its last figures to the run's.
void Sampler::retire(WatchedProcess& process) {
  process.read_faults();
  ended_minor_ += process.reading().minor_faults;
  ended_major_ += process.reading().major_faults;
  raise(found_.peak_resident, process.peak_resident());
  add_phases(process);
}

void Sampler::add_sample(uint64_t elapsed_ns) {
  Sample sample;
  sample.seconds = static_cast<double>(elapsed_ns) / 1e9;
  sample.faults = ended_minor_ + ended_major_;
  for (const auto& [pid, process] : processes_) {
    const ProcessReading& now = process->reading();
    sample.resident += now.resident;
    sample.faults += now.minor_faults + now.major_faults;
    sample.pinned += now.counters ? now.counters->pinned : now.locked;
    if (!now.counters) continue;
    found_.has_counters = true;
    sample.live += now.counters->live;
    sample.held += now.counters->held;
    sample.overflow += now.counters->overflow;
  }
  raise(found_.peak_resident, sample.resident);
  raise(found_.peak_pinned, sample.pinned);
  raise(found_.peak_live, sample.live);
  raise(found_.peak_held, sample.held);
  raise(found_.peak_overflow, sample.overflow);
  if (sample.resident != 0 || found_.series.empty()) found_.series.push_back(sample);
}

// The pages stay readable after their processes end, and have peaks that samples may have missed.
void Sampler::add_phases(const WatchedProcess& process) {
  for (const CounterReader& page : process.counter_pages()) {
    const ProcessCounters counters = page.read();
    found_.has_counters = true;
    raise(found_.peak_live, counters.peak_live);
    raise(found_.peak_held, counters.held);
    raise(found_.peak_held_by_one, counters.held);
    raise(found_.peak_pinned, counters.peak_pinned);
    raise(found_.peak_overflow, counters.overflow);
    for (const PhaseCounters& from : counters.phases) {
      const auto known = std::ranges::find(found_.phases, from.name, &PhaseCounters::name);
      if (known == found_.phases.end()) {
        found_.phases.push_back(from);
        continue;
      }
      known->entered += from.entered;
      known->ns += from.ns;
      raise(known->peak_live, from.peak_live);
      raise(known->peak_held, from.peak_held);
      raise(known->peak_pinned, from.peak_pinned);
    }
  }
}

std::vector<pid_t> Sampler::alive() {
  find_processes();
  read_processes(os::now_ns() - start_ns_);
  std::vector<pid_t> pids;
  for (const auto& [pid, process] : processes_) pids.push_back(pid);
  return pids;
}

Samples Sampler::finish() {
  for (const auto& [pid, process] : processes_) {
    retire(*process);
    tree_->forget(pid);
  }
  processes_.clear();
  found_.minor_faults = ended_minor_;
  found_.major_faults = ended_major_;
  return std::move(found_);
}

}  // namespace rdmalloc::cli::study
