// The user's ledger of this machine, read only: it is not created if it does not exist.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace rdmalloc::cli {

struct LedgerView {
  std::string path;
  std::string trouble;  // a sentence when there is one that cannot be read; else empty
  bool is_kept = false;
  std::map<pid_t, uint64_t> granted;  // bytes, of living processes
  // The same of those that share no limit of the machine's, but their control group's.
  std::map<pid_t, uint64_t> granted_in_groups;
  std::optional<uint64_t> cap;  // bytes; of those that processes have, the greatest
  bool has_several_caps = false;

  uint64_t sum() const;   // of what was granted, saturating
  uint64_t left() const;  // below the cap
  uint64_t even_share() const;

  // What a process was granted is more than its even share of the limit, while the others could
  // not have theirs.
  bool is_over_share(uint64_t of) const;
};

// By RDMALLOC_LEDGER, or the user's own.
LedgerView read_ledger();

}  // namespace rdmalloc::cli
