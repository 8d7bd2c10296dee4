#include "allocator/pages/growth_warnings.h"

#include "allocator/limits/launcher.h"
#include "allocator/message.h"
#include "allocator/os/announcement.h"
#include "allocator/os/confinement.h"
#include "allocator/os/limits.h"
#include "allocator/os/process.h"

namespace rdmalloc {
namespace {

// MPICH gives its jobs no name, but on each machine the ranks have one parent.
bool is_of_job(const Place& place) { return place.has_job() || place.has_rank(); }

// Only one live process per user, job and machine warns: a limit that is too small for one rank is
// too small for its hundred neighbours. Not inlined: its stack is free again when the caller
// writes.
[[gnu::noinline]] bool is_first_in_job(const Place& place) {
  if (!is_of_job(place)) return true;
  Message name;
  name.add("rdmalloc-said-").add_number(os::effective_user()).add("-");
  if (place.has_job()) {
    name.add(place.job);
  } else {
    name.add("by-").add_number(os::parent_number());
  }
  char text[os::kLongestSocketName];
  name.copy_to(text, sizeof text);
  return os::claim_name(os::text(text));
}

void add_who(const Place& place, Message* out) {
  out->add("rdmalloc: process ").add_number(os::process_number());
  if (place.has_rank()) out->add(", rank ").add(place.rank);
  if (place.machine[0] != '\0') out->add(" on ").add(place.machine);
  out->add(": ");
}

}  // namespace

bool GrowthWarnings::may_warn(Warning of) {
  const bool is_new = (warned_ & of) == 0;
  warned_ |= of;
  // A sandbox allows neither printing nor asking for the machine's name.
  return is_new && options_.on(OptionId::warn) && !os::is_confined();
}

void GrowthWarnings::warn_of_ledger() {
  if (budget_.shared().ledger().trouble()[0] == '\0' || !may_warn(kOfLedger)) return;
  Message().add(budget_.shared().ledger().trouble()).send();
}

void GrowthWarnings::warn_of_window(size_t wanted) {
  if (window_.left() >= wanted + 2 * Window::kGranule || !may_warn(kOfWindow)) return;
  Message message;
  message.add("rdmalloc: the window of ").add_size(window_.size());
  message.add(" has no addresses left for more memory; RDMALLOC_WINDOW makes it larger").send();
}

void GrowthWarnings::warn_of_overflow() {
  // A cap of zero was set on purpose.
  if (budget_.pin_limit().bytes() == 0 && budget_.pin_limit().limited_by() == LimitedBy::kCap)
    return;
  if (!may_warn(kOfOverflow)) return;
  const Place place = find_place();
  if (!is_first_in_job(place)) return;
  Message message;
  add_who(place, &message);
  message.add("from here on memory is not pinned: ");
  switch (budget_.pin_limit().limited_by()) {
    case LimitedBy::kMemlock: {
      if (budget_.pin_limit().is_refused_for_good()) {
        message.add("the kernel, or a sandbox, refuses mlock2, which no limit explains; ")
            .add_size(budget_.charges().pinned())
            .add(" is pinned");
        break;
      }
      const os::LockLimit limit = os::lock_limit();
      message.add("RLIMIT_MEMLOCK is ").add_size(limit.soft).add(" (hard ").add_size(limit.hard);
      message.add("), ")
          .add_size(budget_.charges().pinned())
          .add(" is pinned; raise it with ulimit -l");
      message.add(" or in limits.conf, or give CAP_IPC_LOCK");
      break;
    }
    case LimitedBy::kAvailable:
      message.add_size(budget_.charges().pinned())
          .add(" is pinned and too little memory is available");
      break;
    case LimitedBy::kCap:
      message.add("RDMALLOC_CAP allows ").add_size(budget_.pin_limit().bytes());
      break;
    case LimitedBy::kMachine:
      message.add("RDMALLOC_NODE_CAP allows ").add_size(budget_.shared().ledger().cap());
      message.add(" on this machine, this process ").add_size(budget_.pin_limit().bytes());
      message.add(" of it; it has ").add_size(budget_.charges().pinned());
      budget_.shared().ledger().say_who_holds(&message);
      break;
  }
  if (is_of_job(place)) message.add("; said once for each machine of the job");
  message.add(" (RDMALLOC_WARN=off silences this)").send();
}

}  // namespace rdmalloc
