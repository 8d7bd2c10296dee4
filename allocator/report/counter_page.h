// The layout of a page of counters that a process writes and others read, without its help and
// without a signal. Counters (counters.h) writes it; the command finds and reads it.
//
// Most processes are small, and some check which descriptors they have. So the page is visible only
// from a certain size on, or with a domain or a phase (RDMALLOC_COUNTERS_FROM).
//
// Others find the page as one of the process's descriptors: /proc/PID/fd/N, a link to a memfd of
// this name. It is sealed: nobody can truncate it, and only the process can write to it. It goes
// with the process; nothing is left behind.
//
// A reader may see one counter newer than another. The process never reads anything back from here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdmalloc {

inline constexpr char kCounterPageName[] = "rdmalloc";
// The number of the page's descriptor, or the next free one, if the limit on descriptors allows it:
// out of the way of programs that rely on the lowest ones.
inline constexpr int kCounterPageDescriptor = 200;

// Bytes, unless its comment says otherwise. Each is as of now; peak_: the highest since the start.
#define RDMALLOC_PAGE_COUNTERS(X)                                               \
  X(live) /* in extents that arenas have, kept for reuse or in use */           \
  X(peak_live)                                                                  \
  X(held)                                                                       \
  X(pinned)                                                                     \
  X(peak_pinned)                                                                \
  X(overflow)                                                                   \
  X(sparse)                                                                     \
  X(regions)           /* a count */                                            \
  X(budget)            /* most that may be pinned */                            \
  X(memory_cap)        /* most that may be held */                              \
  X(limited_by)        /* LimitedBy: where the budget comes from */             \
  X(domains)           /* a count of those open */                              \
  X(registered)        /* once for each domain */                               \
  X(registered_pinned) /* what that pinned: VmPin, but for the program's own */ \
  X(forked)            /* 1 in a child of fork */                               \
  X(peak_held)                                                                  \
  X(window) /* its first address */                                             \
  X(window_bytes)                                                               \
  X(report) /* ReportState */

// The state of the process's own report, so that a watcher does not overwrite it.
enum class ReportState : uint64_t {
  kAbsent,   // nobody has written it
  kBegun,    // the process is writing it
  kWritten,  // the process has written it
  kFailed    // the process could not write it
};

// A phase of the program, by rdm_phase(). The peaks are those while it was in force.
struct PhaseRecord {
  static constexpr size_t kLongestName = 39;
  using Word = std::atomic<uint64_t>;

  char name[kLongestName + 1] = {};  // does not change once the phase is counted
  Word entered{0};                   // how many times
  Word ns{0};                        // in it, without the time since it was entered last
  Word peak_live{0};
  Word peak_held{0};
  Word peak_pinned{0};
  Word peak_overflow{0};
};

struct CounterPage {
  using Word = std::atomic<uint64_t>;
  static constexpr uint64_t kMagic = 0x73746e756f636472;  // "rdcounts"
  static constexpr uint64_t kVersion = 3;
  static constexpr size_t kMostPhases = 40;
  static constexpr uint64_t kNoPhase = UINT64_MAX;

  Word magic{0};  // stored last, when the page is complete
  Word version{0};
  Word process{0};  // its number, as it sees it itself
#define RDMALLOC_PAGE_COUNTER(name) Word name{0};
  RDMALLOC_PAGE_COUNTERS(RDMALLOC_PAGE_COUNTER)
#undef RDMALLOC_PAGE_COUNTER
  Word phase_count{0};
  Word phase_now{kNoPhase};  // its index
  Word phase_since{0};       // ns of CLOCK_MONOTONIC
  PhaseRecord phases[kMostPhases];
};
static_assert(sizeof(CounterPage) <= 4096 && CounterPage::Word::is_always_lock_free);

inline uint64_t get_word(const CounterPage::Word& word) {
  return word.load(std::memory_order_relaxed);
}
inline void set_word(CounterPage::Word* word, uint64_t value) {
  word->store(value, std::memory_order_relaxed);
}
// If another thread's lower value overtakes a raise, the next raise corrects it.
inline void raise_word(CounterPage::Word* word, uint64_t value) {
  if (value > get_word(*word)) set_word(word, value);
}

// How long a phase took, including the time since it was last entered if it is in force. `now`: ns
// of CLOCK_MONOTONIC.
inline uint64_t ns_in_phase(const CounterPage& page, size_t index, uint64_t now) {
  const uint64_t before = page.phases[index].ns.load(std::memory_order_relaxed);
  if (page.phase_now.load(std::memory_order_relaxed) != index) return before;
  const uint64_t since = page.phase_since.load(std::memory_order_relaxed);
  return now > since ? before + (now - since) : before;
}

}  // namespace rdmalloc
