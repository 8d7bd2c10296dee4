#include "allocator/pages/growth_warnings.h"

#include "allocator/message.h"
#include "allocator/os/limits.h"

namespace rdmalloc {

bool GrowthWarnings::may_warn(Warning of) {
  const bool is_new = (warned_ & of) == 0;
  warned_ |= of;
  return is_new && options_.on(OptionId::warn);
}

void GrowthWarnings::warn_of_ledger() {
  if (budget_.ledger().trouble()[0] == '\0' || !may_warn(kOfLedger)) return;
  Message().add(budget_.ledger().trouble()).send();
}

void GrowthWarnings::warn_of_window(size_t wanted) {
  if (window_.left() >= wanted + 2 * Window::kGranule || !may_warn(kOfWindow)) return;
  Message message;
  message.add("rdmalloc: the window of ").add_size(window_.size());
  message.add(" has no addresses left for more memory; RDMALLOC_WINDOW makes it larger").send();
}

void GrowthWarnings::warn_of_overflow() {
  // A cap of nothing is a decision, not an accident.
  if (budget_.pin_limit() == 0 && budget_.limited_by() == LimitedBy::kCap) return;
  if (!may_warn(kOfOverflow)) return;
  Message message;
  message.add("rdmalloc: from here on memory is not pinned: ");
  switch (budget_.limited_by()) {
    case LimitedBy::kMemlock: {
      const os::LockLimit limit = os::lock_limit();
      message.add("RLIMIT_MEMLOCK is ").add_size(limit.soft).add(" (hard ").add_size(limit.hard);
      message.add("), ").add_size(budget_.pinned()).add(" is pinned; raise it with ulimit -l");
      message.add(" or in limits.conf, or give CAP_IPC_LOCK");
      break;
    }
    case LimitedBy::kAvailable:
      message.add_size(budget_.pinned()).add(" is pinned and too little memory is available");
      break;
    case LimitedBy::kCap:
      message.add("RDMALLOC_CAP allows ").add_size(budget_.pin_limit());
      break;
    case LimitedBy::kNode:
      message.add("RDMALLOC_NODE_CAP allows ").add_size(budget_.ledger().cap());
      message.add(" on this node, this process ").add_size(budget_.pin_limit());
      message.add(" of it; it has ").add_size(budget_.pinned());
      budget_.ledger().say_who_holds(&message);
      break;
  }
  message.add(" (RDMALLOC_WARN=off silences this)").send();
}

}  // namespace rdmalloc
