// What the processes of one user on this machine have pinned, so that together they stay below a
// limit (RDMALLOC_NODE_CAP). A file of records, one for each process, which all of them know by
// name: each process writes what it was granted before it pins it.
//
// A dead process keeps no share: a process that runs short checks which of the others are alive.
// The kernel releases the lock of a process that dies, and a record is written in one call, so a
// kill at any point leaves records that are right, or too large but of a dead process.
//
// If the file makes no sense, or does not belong to the user, the process continues with its own
// limits.
//
// Runs inside malloc, some microseconds for each region acquired. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/limits/ledger_file.h"
#include "allocator/message.h"
#include "allocator/os/process.h"

namespace rdmalloc {

class MachineLedger {
 public:
  // What a process records about itself, in bytes.
  struct Books {
    uint64_t pinned = 0;
    uint64_t held = 0;
  };

  constexpr MachineLedger() = default;
  MachineLedger(const MachineLedger&) = delete;
  MachineLedger& operator=(const MachineLedger&) = delete;

  // Joins with a limit of `cap` bytes for the machine, or for the processes of one control group,
  // which may use the same file. An empty path: the user's own ledger.
  void boot(const char* path, uint64_t cap, uint64_t group = 0);

  bool is_kept() const { return cap_ != 0; }
  bool is_of_group() const { return group_ != 0; }
  uint64_t cap() const { return cap_; }

  // Asks to pin `want` more bytes than `own` says, of which `need` are needed at once. Returns what
  // was granted; 0: the machine has no room. If the ledger cannot be used, it is given up, the
  // request is granted, and trouble() says why, unless nobody asked for a ledger.
  uint64_t ask(const Books& own, uint64_t need, uint64_t want);

  // Joins before it asks for anything, so that others see it in sharers().
  void enter(const Books& own);

  // How many living processes share this limit, including this one; 1 if there can be no ledger, 0
  // while another process has it locked. Any thread.
  size_t sharers() const;

  // Records what is pinned now, which may be less than was granted.
  void record_pinned(const Books& own);

  // Adds a clause on who had how much when this process was last refused; nothing if it never was.
  void say_who_holds(Message* out) const;

  // A sentence, or empty.
  const char* trouble() const { return trouble_; }

  // The child has pinned nothing, and is a separate process.
  void note_fork_child();

 private:
  uint64_t grant(LedgerFile* ledger, const Books& own, uint64_t need, uint64_t want);
  uint64_t give_up(const char* why, int error, uint64_t want);
  LedgerRecord record(const Books& own, uint64_t granted) const;

  uint64_t cap_ = 0;       // 0: no ledger is kept
  uint64_t group_ = 0;     // 0: the machine's
  uint64_t granted_ = 0;   // as the file says
  bool was_busy_ = false;  // the last time
  os::Process self_;
  // Of others, the greatest first, when this process was last refused.
  LedgerRecord holders_[LedgerSurvey::kTold];
  char path_[LedgerFile::kLongestPath] = {};
  char trouble_[512] = {};
};

}  // namespace rdmalloc
