// What the processes of one user on this node have pinned, so that together they stay below a limit
// (RDMALLOC_NODE_CAP). A file of records, one for each process, that all of them know by its name:
// each writes what it was granted before it pins it.
//
// Nobody can take a share to the grave: who is short of memory looks which of the processes live.
// The file's lock goes with the process that holds it, and a record is one write, so a kill at any
// point leaves records that are right or too large, of a dead process.
//
// Nothing in the file is trusted for more than its numbers: it is read into memory of our own, and
// when it makes no sense, or is not the user's own, the process goes on with its own limits.
//
// Runs inside malloc, some microseconds for each region acquired. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "allocator/os/process.h"

namespace rdmalloc {

class NodeLedger {
 public:
  // What a process enters of itself, in bytes.
  struct Books {
    uint64_t pinned = 0;
    uint64_t held = 0;
  };

  // As it lies in the file.
  struct Record {
    os::Process process;   // number 0: the record is free
    uint64_t granted = 0;  // bytes it may have pinned
    uint64_t held = 0;     // bytes, pinned or not, when it last asked
    uint64_t cap = 0;      // the limit of all, as this process has it
    uint64_t group = 0;    // the control group whose limit it is; 0: the node's
    uint64_t spare[2] = {};
  };

  static constexpr size_t kLongestPath = 1024;

  constexpr NodeLedger() = default;
  NodeLedger(const NodeLedger&) = delete;
  NodeLedger& operator=(const NodeLedger&) = delete;

  // Takes part, with `cap` bytes for the node, or for the processes of one control group, which the
  // same file may serve. An empty path: the user's own ledger, apart for each container.
  void boot(const char* path, uint64_t cap, uint64_t group = 0);

  bool is_kept() const { return cap_ != 0; }
  bool is_of_group() const { return group_ != 0; }
  uint64_t cap() const { return cap_; }
  const char* path() const { return path_; }

  // Asks to pin `want` more bytes than `own` says, of which `need` are needed at once. What was
  // granted; 0: the node has no room. When the ledger cannot be used it is not kept any more, what
  // is wanted is granted, and trouble() says why, unless nobody asked for a ledger.
  uint64_t ask(const Books& own, uint64_t need, uint64_t want);

  // Takes part before it asks for anything, for others to see in sharers().
  void enter(const Books& own);

  // How many living processes take part in this limit, this one included; 1 where there can be no
  // ledger, 0 while it is another's. By any thread.
  size_t sharers() const;

  // What came of it: less may have been pinned than was granted.
  void settle(const Books& own);

  // A clause on who had how much when this process was last refused. Nothing when it never was.
  void say_who_holds(Message* out) const;

  // A sentence, or empty.
  const char* trouble() const { return trouble_; }

  // The child has pinned nothing, and is a process of its own.
  void note_fork_child();

  // Reads all records; how many there are of living processes, the first `most` of them in `out`.
  // SIZE_MAX: trouble() says why not.
  size_t read(Record* out, size_t most);

 private:
  static constexpr size_t kTold = 3;

  struct Survey;
  class Open;  // the file while it is locked

  uint64_t grant(Open* ledger, const Books& own, uint64_t need, uint64_t want);
  uint64_t give_up(const char* why, int error, uint64_t want);
  void complain(const char* why, int error, const char* consequence);
  Record record(const Books& own, uint64_t granted) const;

  uint64_t cap_ = 0;       // 0: not kept
  uint64_t group_ = 0;     // 0: of the node
  uint64_t granted_ = 0;   // as the file says
  bool was_busy_ = false;  // the last time
  os::Process self_;
  Record holders_[kTold];  // of others, the greatest first
  char path_[kLongestPath] = {};
  char trouble_[512] = {};
};

}  // namespace rdmalloc
