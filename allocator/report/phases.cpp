#include "allocator/report/phases.h"

#include <string.h>

#include "allocator/os/clock.h"

namespace rdmalloc {
namespace {

constexpr char kOtherPhases[] = "(others)";

bool has_name(const PhaseRecord& phase, const char* name) {
  return strncmp(phase.name, name, PhaseRecord::kLongestName) == 0;
}

}  // namespace

PhaseRecord* Phases::named(CounterPage* page, const char* name) {
  const size_t count = get_word(page->phase_count);
  for (size_t i = 0; i < count; ++i) {
    if (has_name(page->phases[i], name)) return &page->phases[i];
  }
  if (count == CounterPage::kMostPhases) return &page->phases[count - 1];
  PhaseRecord* const added = &page->phases[count];
  if (count == CounterPage::kMostPhases - 1) name = kOtherPhases;
  strncpy(added->name, name, PhaseRecord::kLongestName);
  page->phase_count.store(count + 1, std::memory_order_release);
  return added;
}

void Phases::end(CounterPage* page) {
  PhaseRecord* const phase = in_force();
  if (phase == nullptr) return;
  set_word(&phase->ns, get_word(phase->ns) + os::now_ns() - get_word(page->phase_since));
  leave(page);
}

void Phases::begin(CounterPage* page, const char* name) {
  end(page);
  if (name == nullptr) return;
  PhaseRecord* const phase = named(page, name);
  in_force_ = phase;
  set_word(&phase->entered, get_word(phase->entered) + 1);
  set_word(&page->phase_since, os::now_ns());
  set_word(&page->phase_now, static_cast<uint64_t>(phase - page->phases));
  raise(*page);
}

void Phases::raise(const CounterPage& page) {
  PhaseRecord* const phase = in_force();
  if (phase == nullptr) return;
  raise_word(&phase->peak_live, get_word(page.live));
  raise_word(&phase->peak_held, get_word(page.held));
  raise_word(&phase->peak_pinned, get_word(page.pinned));
  raise_word(&phase->peak_overflow, get_word(page.overflow));
}

void Phases::leave(CounterPage* page) {
  set_word(&page->phase_now, CounterPage::kNoPhase);
  in_force_ = nullptr;
}

void Phases::clear(CounterPage* page) {
  leave(page);
  set_word(&page->phase_count, 0);
  memset(static_cast<void*>(page->phases), 0, sizeof page->phases);
}

}  // namespace rdmalloc
