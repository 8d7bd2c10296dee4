#include "allocator/counters.h"

#include <string.h>

#include "allocator/os/clock.h"
#include "allocator/os/process.h"

namespace rdmalloc {
namespace {

constexpr char kOtherPhases[] = "(others)";

bool has_name(const PhaseRecord& phase, const char* name) {
  return strncmp(phase.name, name, PhaseRecord::kLongestName) == 0;
}

}  // namespace

void Counters::share() {
  if (was_shared_) return;
  was_shared_ = true;
  if (ok(os::share_page(kCounterPageName, kCounterPageDescriptor, &shared_))) publish();
}

// The magic number last: a reader that comes before sees no page yet.
void Counters::publish() {
  page_ = static_cast<CounterPage*>(shared_.address);
  copy_from(own_);
  set(&page_->version, CounterPage::kVersion);
  set(&page_->process, os::process_number());
  page_->magic.store(CounterPage::kMagic, std::memory_order_release);
}

// Without its phases.
void Counters::copy_from(const CounterPage& page) {
#define RDMALLOC_COPY(name) set(&page_->name, get(page.name));
  RDMALLOC_PAGE_COUNTERS(RDMALLOC_COPY)
#undef RDMALLOC_COPY
  set(&page_->phase_now, CounterPage::kNoPhase);
  phase_ = nullptr;
}

void Counters::note_budget(const Budget& budget, size_t regions) {
  set(&page_->held, budget.held());
  set(&page_->pinned, budget.pinned());
  raise(&page_->peak_pinned, budget.pinned());
  set(&page_->overflow, budget.overflow());
  set(&page_->sparse, budget.sparse());
  set(&page_->regions, regions);
  set(&page_->budget, budget.pin_limit());
  set(&page_->memory_cap, budget.memory_cap());
  set(&page_->limited_by, static_cast<uint64_t>(budget.limited_by()));
  raise_phase();
}

void Counters::raise_phase() {
  if (phase_ == nullptr) return;
  raise(&phase_->peak_live, get(page_->live));
  raise(&phase_->peak_held, get(page_->held));
  raise(&phase_->peak_pinned, get(page_->pinned));
  raise(&phase_->peak_overflow, get(page_->overflow));
}

void Counters::note_registrations(uint64_t domains, uint64_t registered,
                                  uint64_t registered_pinned) {
  set(&page_->domains, domains);
  set(&page_->registered, registered);
  set(&page_->registered_pinned, registered_pinned);
}

PhaseRecord* Counters::phase_named(const char* name) {
  const size_t count = get(page_->phase_count);
  for (size_t i = 0; i < count; ++i) {
    if (has_name(page_->phases[i], name)) return &page_->phases[i];
  }
  if (count == CounterPage::kMostPhases) return &page_->phases[count - 1];
  PhaseRecord* const added = &page_->phases[count];
  if (count == CounterPage::kMostPhases - 1) name = kOtherPhases;
  strncpy(added->name, name, PhaseRecord::kLongestName);
  page_->phase_count.store(count + 1, std::memory_order_release);
  return added;
}

void Counters::end_phase() {
  if (phase_ == nullptr) return;
  set(&phase_->ns, get(phase_->ns) + os::now_ns() - get(page_->phase_since));
  set(&page_->phase_now, CounterPage::kNoPhase);
  phase_ = nullptr;
}

void Counters::begin_phase(const char* name) {
  end_phase();
  if (name == nullptr) return;
  phase_ = phase_named(name);
  set(&phase_->entered, get(phase_->entered) + 1);
  set(&page_->phase_since, os::now_ns());
  set(&page_->phase_now, static_cast<uint64_t>(phase_ - page_->phases));
  raise_phase();
}

// The parent's page is mapped here, too, and must not hear of this process.
void Counters::note_fork_child() {
  const CounterPage& parents = *page_;
  page_ = &own_;
  copy_from(parents);
  set(&page_->phase_count, 0);
  memset(static_cast<void*>(page_->phases), 0, sizeof page_->phases);
  note_registrations(0, 0, 0);
  set(&page_->pinned, 0);
  set(&page_->peak_pinned, 0);
  set(&page_->forked, 1);
  if (shared_.address == nullptr) return;
  if (ok(os::replace_page(kCounterPageName, kCounterPageDescriptor, &shared_))) publish();
}

}  // namespace rdmalloc
