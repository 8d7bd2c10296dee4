#include "allocator/report/counters.h"

#include <string.h>

#include "allocator/os/clock.h"
#include "allocator/os/process.h"

namespace rdmalloc {
namespace {

// A watcher holds the lock for the moment it takes to write a file. A stopped watcher is not waited
// for.
constexpr uint64_t kPatienceNs = 500'000'000;

constexpr char kOtherPhases[] = "(others)";

bool has_name(const PhaseRecord& phase, const char* name) {
  return strncmp(phase.name, name, PhaseRecord::kLongestName) == 0;
}

}  // namespace

void Counters::share() {
  Locked hold(mutex());
  if (was_shared_) return;
  was_shared_ = true;
  if (ok(os::share_page(kCounterPageName, kCounterPageDescriptor, &shared_))) publish();
}

// Stores the magic number last: until then a reader sees no page.
void Counters::publish() {
  page_ = static_cast<CounterPage*>(shared_.address);
  copy_from(own_);
  set(&now()->version, CounterPage::kVersion);
  set(&now()->process, os::process_number());
  now()->magic.store(CounterPage::kMagic, std::memory_order_release);
}

// Does not copy the phases.
void Counters::copy_from(const CounterPage& page) {
#define RDMALLOC_COPY(name) set(&now()->name, get(page.name));
  RDMALLOC_PAGE_COUNTERS(RDMALLOC_COPY)
#undef RDMALLOC_COPY
  set(&now()->phase_now, CounterPage::kNoPhase);
  phase_ = nullptr;
}

void Counters::note_window(uintptr_t first, size_t bytes) {
  Locked hold(mutex());
  set(&now()->window, first);
  set(&now()->window_bytes, bytes);
}

void Counters::note_budget(const Budget& budget, size_t regions) {
  Locked hold(mutex());
  set(&now()->held, budget.charges().held());
  set(&now()->pinned, budget.charges().pinned());
  raise(&now()->peak_pinned, budget.charges().pinned());
  raise(&now()->peak_held, budget.charges().held());
  set(&now()->overflow, budget.charges().overflow());
  set(&now()->sparse, budget.charges().sparse());
  set(&now()->regions, regions);
  set(&now()->budget, budget.pin_limit().bytes());
  set(&now()->memory_cap, budget.memory().cap());
  set(&now()->limited_by, static_cast<uint64_t>(budget.pin_limit().limited_by()));
  raise_phase();
}

void Counters::raise_phase() {
  if (phase() == nullptr) return;
  raise(&phase()->peak_live, get(now()->live));
  raise(&phase()->peak_held, get(now()->held));
  raise(&phase()->peak_pinned, get(now()->pinned));
  raise(&phase()->peak_overflow, get(now()->overflow));
}

void Counters::note_report(ReportState state) {
  os::SharedPage shared;
  {
    Locked hold(mutex());
    shared = shared_;
  }
  // A watcher reads the state while it holds the lock.
  const bool is_locked = os::lock_page(shared, kPatienceNs);
  set(&now()->report, static_cast<uint64_t>(state));
  if (is_locked) os::unlock_page(shared);
}

int Counters::descriptor() {
  Locked hold(mutex());
  return os::page_descriptor(shared_);
}

void Counters::note_registrations(uint64_t domains, uint64_t registered,
                                  uint64_t registered_pinned) {
  Locked hold(mutex());
  set(&now()->domains, domains);
  set(&now()->registered, registered);
  set(&now()->registered_pinned, registered_pinned);
}

PhaseRecord* Counters::phase_named(const char* name) {
  const size_t count = get(now()->phase_count);
  for (size_t i = 0; i < count; ++i) {
    if (has_name(now()->phases[i], name)) return &now()->phases[i];
  }
  if (count == CounterPage::kMostPhases) return &now()->phases[count - 1];
  PhaseRecord* const added = &now()->phases[count];
  if (count == CounterPage::kMostPhases - 1) name = kOtherPhases;
  strncpy(added->name, name, PhaseRecord::kLongestName);
  now()->phase_count.store(count + 1, std::memory_order_release);
  return added;
}

void Counters::end_phase() {
  if (phase() == nullptr) return;
  set(&phase()->ns, get(phase()->ns) + os::now_ns() - get(now()->phase_since));
  set(&now()->phase_now, CounterPage::kNoPhase);
  phase_ = nullptr;
}

void Counters::begin_phase(const char* name) {
  Locked hold(mutex());
  end_phase();
  if (name == nullptr) return;
  phase_ = phase_named(name);
  set(&phase()->entered, get(phase()->entered) + 1);
  set(&now()->phase_since, os::now_ns());
  set(&now()->phase_now, static_cast<uint64_t>(phase() - now()->phases));
  raise_phase();
}

// The parent's page is mapped here too, and must not receive this process's counts.
void Counters::note_fork_child() {
  const CounterPage& parents = *now();
  page_ = &own_;
  copy_from(parents);
  set(&now()->phase_count, 0);
  memset(static_cast<void*>(now()->phases), 0, sizeof now()->phases);
  set(&now()->domains, 0);
  set(&now()->registered, 0);
  set(&now()->registered_pinned, 0);
  set(&now()->pinned, 0);
  set(&now()->peak_pinned, 0);
  set(&now()->report, 0);
  set(&now()->forked, 1);
  if (shared_.address == nullptr) return;
  if (ok(os::replace_page(kCounterPageName, kCounterPageDescriptor, &shared_))) publish();
}

}  // namespace rdmalloc
