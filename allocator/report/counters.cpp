#include "allocator/report/counters.h"

#include "allocator/os/process.h"

namespace rdmalloc {
namespace {

// A watcher holds the lock for the moment it takes to write a file. A stopped watcher is not waited
// for.
constexpr uint64_t kPatienceNs = 500'000'000;

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
  set_word(&now()->version, CounterPage::kVersion);
  set_word(&now()->process, os::process_number());
  now()->magic.store(CounterPage::kMagic, std::memory_order_release);
}

// Does not copy the phases.
void Counters::copy_from(const CounterPage& page) {
#define RDMALLOC_COPY(name) set_word(&now()->name, get_word(page.name));
  RDMALLOC_PAGE_COUNTERS(RDMALLOC_COPY)
#undef RDMALLOC_COPY
  phases_.leave(now());
}

void Counters::note_window(uintptr_t first, size_t bytes) {
  Locked hold(mutex());
  set_word(&now()->window, first);
  set_word(&now()->window_bytes, bytes);
}

void Counters::note_budget(const Budget& budget, size_t regions) {
  const Charges& charges = budget.charges();
  Locked hold(mutex());
  set_word(&now()->held, charges.held());
  set_word(&now()->pinned, charges.pinned());
  raise_word(&now()->peak_pinned, charges.pinned());
  raise_word(&now()->peak_held, charges.held());
  set_word(&now()->overflow, charges.overflow());
  set_word(&now()->sparse, charges.sparse());
  set_word(&now()->regions, regions);
  set_word(&now()->budget, budget.pin_limit().bytes());
  set_word(&now()->memory_cap, budget.memory().cap());
  set_word(&now()->limited_by, static_cast<uint64_t>(budget.pin_limit().limited_by()));
  phases_.raise(*now());
}

void Counters::note_report(ReportState state) {
  os::SharedPage shared;
  {
    Locked hold(mutex());
    shared = shared_;
  }
  // A watcher reads the state while it holds the lock.
  const bool is_locked = os::lock_page(shared, kPatienceNs);
  set_word(&now()->report, static_cast<uint64_t>(state));
  if (is_locked) os::unlock_page(shared);
}

int Counters::descriptor() {
  Locked hold(mutex());
  return os::page_descriptor(shared_);
}

void Counters::note_registrations(uint64_t domains, uint64_t registered,
                                  uint64_t registered_pinned) {
  Locked hold(mutex());
  set_word(&now()->domains, domains);
  set_word(&now()->registered, registered);
  set_word(&now()->registered_pinned, registered_pinned);
}

void Counters::begin_phase(const char* name) {
  Locked hold(mutex());
  phases_.begin(now(), name);
}

// The parent's page is mapped here too, and must not receive this process's counts.
void Counters::note_fork_child() {
  const CounterPage& parents = *now();
  page_ = &own_;
  copy_from(parents);
  phases_.clear(now());
  set_word(&now()->domains, 0);
  set_word(&now()->registered, 0);
  set_word(&now()->registered_pinned, 0);
  set_word(&now()->pinned, 0);
  set_word(&now()->peak_pinned, 0);
  set_word(&now()->report, 0);
  set_word(&now()->forked, 1);
  if (shared_.address == nullptr) return;
  if (ok(os::replace_page(kCounterPageName, kCounterPageDescriptor, &shared_))) publish();
}

}  // namespace rdmalloc
