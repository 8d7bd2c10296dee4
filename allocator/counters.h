// The process's own counter page (counter_page.h): kept up to date by the heap wherever a sum
// changes, so that a reader from outside needs nobody's help. Until share() it is a page of this
// process's alone.
//
// Everything runs under the heap's pool lock, inside malloc: some stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/budget.h"
#include "allocator/counter_page.h"
#include "allocator/os/shared_page.h"

namespace rdmalloc {

class Counters {
 public:
  constexpr Counters() = default;
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Lets others find the page, from the first call on. Nothing happens where the kernel or a limit
  // on descriptors refuses.
  void share();

  void note_live(uint64_t live) {
    raise(&page_->peak_live, live);
    set(&page_->live, live);
    if (phase_ != nullptr) raise(&phase_->peak_live, live);
  }
  void note_budget(const Budget& budget, size_t regions);
  void note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned);

  // Ends the phase in force and begins the one of this name, again if there was one already. Null:
  // begins none. A longer name than there is room for is cut; phases beyond kMostPhases are one,
  // the last.
  void begin_phase(const char* name);

  // The child is a process of its own, with its parent's figures and no phases.
  void note_fork_child();

  const CounterPage& page() const { return *page_; }

 private:
  using Word = CounterPage::Word;

  // Only ever written under the lock, so no read-modify-write.
  static void set(Word* word, uint64_t value) { word->store(value, std::memory_order_relaxed); }
  static uint64_t get(const Word& word) { return word.load(std::memory_order_relaxed); }
  static void raise(Word* word, uint64_t value) {
    if (value > get(*word)) set(word, value);
  }

  PhaseRecord* phase_named(const char* name);
  void end_phase();
  void raise_phase();
  void copy_from(const CounterPage& page);
  void publish();

  CounterPage own_;  // before share(), and where it did not work
  CounterPage* page_ = &own_;
  PhaseRecord* phase_ = nullptr;  // in force
  os::SharedPage shared_;
  bool was_shared_ = false;  // or could not be
};

}  // namespace rdmalloc
