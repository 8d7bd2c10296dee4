#include "allocator/limits/shared_limit.h"

#include <algorithm>

#include "allocator/limits/launcher.h"
#include "allocator/os/confinement.h"
#include "allocator/report/file_name.h"

namespace rdmalloc {
namespace {

// The processes of a control group together pin at most all but this share of its limit.
constexpr uint64_t kGroupShare = 20;

// This part of memory that several processes share is never populated ahead of need: each process
// also has page tables and other memory that counts, and goes on to touch what is not populated
// yet.
constexpr uint64_t kNeverAhead = 4;

// Where any number of processes may come later, only this part of their memory is filled with pages
// that nobody needs yet: whoever comes needs the rest.
constexpr uint64_t kAheadOfAll = 16;

// A process that holds no more does not join a group's ledger: that would cost more than its whole
// heap.
constexpr uint64_t kUnrecorded = uint64_t{8} << 20;

using os::less;

}  // namespace

// Each rank gets its own share, whichever starts first. The ledger keeps the sum below the limit if
// more processes start than the launcher announced.
uint64_t SharedLimit::join(const Options& options, uint64_t node_cap, const os::Cgroup& group) {
  if (node_cap == 0) {
    if (group.id != 0) join_group(options, group);
    return os::kNoLimit;
  }
  char ledger[LedgerFile::kLongestPath];
  const bool fits =
      expand_file_name(options.path(OptionId::ledger), find_place(), ledger, sizeof ledger);
  // The ledger itself reports what is wrong with a name.
  ledger_.boot(fits ? ledger : "too-long", node_cap);
  return node_cap / ranks_on_machine();
}

void SharedLimit::join_group(const Options& options, const os::Cgroup& group) {
  const uint64_t cap = less(group.limit, std::max(group.limit / kGroupShare, kProcessReserve));
  ledger_.boot(options.path(OptionId::ledger), cap, group.id);
  const bool at_once = options.choice(OptionId::populate) == kPopulateNow;
  const uint64_t ranks = ranks_on_machine();
  expected_ = ranks > 1 || at_once ? ranks : 0;
  group_cap_.store(cap, std::memory_order_release);
  if (at_once) note_ahead();
}

uint64_t SharedLimit::ask(size_t need, size_t want) {
  if (!ledger_.is_kept()) return want;
  if (ledger_.is_of_group() && charges_.held() + want <= kUnrecorded) return want;
  return ledger_.ask(books(), need, want);
}

void SharedLimit::note_ahead() {
  if (ledger_.is_of_group()) ledger_.enter(books());
}

uint64_t SharedLimit::room_ahead() const {
  const uint64_t room = memory_.room_to_populate();
  const uint64_t cap = group_cap_.load(std::memory_order_acquire);
  if (room == 0 || cap == 0) return room;
  // In a sandbox neither the ledger nor /proc can be read.
  if (os::is_confined()) return 0;
  if (expected_ == 0) {
    // What room_to_populate() reserves for others counts as used.
    const uint64_t used = less(memory_.total(), room);
    return less(memory_.total() / kAheadOfAll, used);
  }
  if (const size_t now = ledger_.sharers(); now != 0) sharers_ = now;
  if (sharers_ == 0) return 0;
  const uint64_t sharers = std::max<uint64_t>(sharers_, expected_);
  const uint64_t shared = sharers == 1 ? cap : cap - cap / kNeverAhead;
  return std::min(room, less(shared / sharers, os::resident_memory()));
}

}  // namespace rdmalloc
