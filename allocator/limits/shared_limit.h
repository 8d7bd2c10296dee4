// A limit that this process shares with others: RDMALLOC_NODE_CAP, with the user's other processes
// on the machine, or its control group's, with the others in it. The machine's ledger keeps the
// sum.
//
// Runs inside malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/limits/charges.h"
#include "allocator/limits/machine_ledger.h"
#include "allocator/limits/memory_limit.h"
#include "allocator/limits/options.h"
#include "allocator/limits/pin_limit.h"
#include "allocator/mutex.h"
#include "allocator/os/limits.h"

namespace rdmalloc {

class SharedLimit {
 public:
  constexpr SharedLimit(const Charges& charges, const MemoryLimit& memory)
      : charges_(charges), memory_(memory) {}
  SharedLimit(const SharedLimit&) = delete;
  SharedLimit& operator=(const SharedLimit&) = delete;

  // Joins the machine's processes if there is a cap for them (not 0), else the control group's, if
  // it has a limit. Returns what this process alone may pin of the cap; kNoLimit if it has no share
  // of its own.
  uint64_t join(const Options& options, uint64_t node_cap, const os::Cgroup& group)
      REQUIRES(growth_lock);

  // Asks to pin `want` more bytes, of which `need` are needed at once. Returns what was granted,
  // which the others can no longer use: ask last.
  uint64_t ask(size_t need, size_t want) REQUIRES(growth_lock);
  // What it counts as if it granted too little.
  LimitedBy limited_by() const REQUIRES(growth_lock) {
    return ledger_.is_of_group() ? LimitedBy::kAvailable : LimitedBy::kMachine;
  }

  // What was granted has been charged, or will not be: tells the others what is pinned, so that
  // they may use the rest.
  void record_pinned() REQUIRES(growth_lock) { ledger_.record_pinned(books()); }

  // Announces pages that nobody needs yet to the processes that share the limit.
  void note_ahead() REQUIRES(growth_lock);

  // How much all threads that are populating may populate together now, of pages that nobody needs
  // yet: of a control group an even share, if a launcher says how many processes there are or if
  // the user wants pages at once; else a little, because more processes may come. Reads /proc. Any
  // thread may read the ledger's file; the ledger's other members are not used.
  uint64_t room_ahead() const NO_THREAD_SAFETY_ANALYSIS;

  // Locks are not inherited.
  void note_fork_child() REQUIRES(growth_lock) { ledger_.note_fork_child(); }

  const MachineLedger& ledger() const REQUIRES(growth_lock) { return ledger_; }

 private:
  void join_group(const Options& options, const os::Cgroup& group) REQUIRES(growth_lock);
  MachineLedger::Books books() const { return {charges_.pinned(), charges_.held()}; }

  const Charges& charges_;
  const MemoryLimit& memory_;
  std::atomic<uint64_t> group_cap_{0};      // what a control group's processes share; 0: nothing
  std::atomic<uint64_t> expected_{0};       // how many at least; 0: nobody says
  mutable std::atomic<size_t> sharers_{0};  // how many shared it lately; 0: not known
  MachineLedger ledger_ GUARDED_BY(growth_lock);
};

}  // namespace rdmalloc
