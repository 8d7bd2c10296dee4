// A snapshot of the machine: its processes, the ledger, and which of them have more than they
// should.
#pragma once

#include <string>
#include <vector>

#include "allocator/tools/top/ledger.h"
#include "allocator/tools/top/machine_processes.h"

namespace rdmalloc::cli {

struct TopView {
  MachineScan scan;
  LedgerView ledger;
  std::vector<std::string> notes;  // sentences: what could not be seen, and why
};

TopView view_of_machine(const ProcessFilter& filter);

// What a process has more of than it should: none, or some of
//   overflow              holds memory that it could not pin
//   over memlock          has locked or pinned more than its soft limit
//   over memlock by right the same; its rights let it (CAP_IPC_LOCK)
//   over share            LedgerView::is_over_share
std::vector<std::string> over(const MachineProcess& process, const LedgerView& ledger);

// Whether anything but its rights let it have what it is over.
bool has_too_much(const MachineProcess& process);

}  // namespace rdmalloc::cli
