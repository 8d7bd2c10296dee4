#include "allocator/limits/machine_ledger.h"

#include <string.h>

#include "allocator/os/confinement.h"
#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

// A holder needs some microseconds. If one was stopped while it held the lock, others wait this
// long, once, and then continue without it.
constexpr uint64_t kPatienceNs = 200'000'000;

constexpr uint64_t kPatienceToCountNs = 2'000'000;

// Fewer dead records stay until memory is short: checking who is alive takes microseconds each.
constexpr size_t kKeptDead = 64;

constexpr size_t kNowhere = LedgerSurvey::kNowhere;

using os::less;

}  // namespace

void MachineLedger::boot(const char* path, uint64_t cap, uint64_t group) {
  cap_ = cap;
  group_ = group;
  // In a sandbox nobody can open it, or ask for what its name says.
  if (cap == 0 || os::is_confined()) return;
  name_ledger(path, path_);
  // With a relative name, a program that changes its working directory would use two ledgers.
  if (path_[0] != '/') (void)give_up("has no absolute name", 0, 0);
}

LedgerRecord MachineLedger::record(const Books& own, uint64_t granted) const {
  LedgerRecord record;
  record.process = self_;
  record.granted = granted;
  record.held = own.held;
  record.cap = cap_;
  record.group = group_;
  return record;
}

uint64_t MachineLedger::ask(const Books& own, uint64_t need, uint64_t want) {
  // The file cannot be opened in a sandbox, and the other processes rely on the sum of a machine's
  // ledger. A group's limit holds without one.
  if (os::is_confined()) return is_of_group() ? want : 0;
  if (self_.start == 0) self_ = os::this_process();
  LedgerFile ledger(path_, was_busy_ ? 0 : kPatienceNs);
  was_busy_ = ledger.is_busy();
  if (was_busy_) return 0;
  if (!ledger.is_good()) return give_up(ledger.why(), ledger.error(), want);
  const uint64_t granted = grant(&ledger, own, need, want);
  return ledger.is_good() ? granted : give_up(ledger.why(), ledger.error(), want);
}

// A record from before exec() belongs to this same process: it is rewritten.
uint64_t MachineLedger::grant(LedgerFile* ledger, const Books& own, uint64_t need, uint64_t want) {
  LedgerSurvey survey;
  if (!ledger->survey(self_, group_, &survey)) return 0;
  const auto room = [&] { return less(less(cap_, own.pinned), survey.others); };
  const bool has_place = survey.own != kNowhere || survey.free != kNowhere;
  if (room() < want || (!has_place && ledger->records() >= kKeptDead)) {
    if (!ledger->bury_the_dead() || !ledger->survey(self_, group_, &survey)) return 0;
  }
  size_t place = survey.own != kNowhere ? survey.own : survey.free;
  if (place == kNowhere) place = ledger->records();
  if (room() < need || place >= LedgerFile::kMostRecords) {
    memcpy(holders_, survey.holders, sizeof holders_);
    return 0;
  }
  const uint64_t granted = want < room() ? want : room();
  if (!ledger->write(place, record(own, own.pinned + granted))) return 0;
  granted_ = own.pinned + granted;
  return granted;
}

void MachineLedger::enter(const Books& own) {
  if (is_kept()) (void)ask(own, 0, 0);
}

size_t MachineLedger::sharers() const {
  LedgerFile ledger(path_, kPatienceToCountNs);
  if (ledger.is_busy()) return 0;
  const uint64_t self = os::process_number();
  size_t others = 0;
  const auto count = [&](size_t, const LedgerRecord& record) {
    const bool is_other = record.process.number != 0 && record.process.number != self &&
                          record.group == group_ && os::is_alive(record.process);
    others += is_other ? 1 : 0;
    return true;
  };
  if (ledger.is_good()) (void)ledger.for_each(count);
  return 1 + others;
}

// A group's limit holds without a ledger too, as far as the group's remaining memory shows it.
uint64_t MachineLedger::give_up(const char* why, int error, uint64_t want) {
  if (!is_of_group()) {
    Message message;
    say_trouble_of_ledger(path_, why, error, &message);
    message.add(": RDMALLOC_NODE_CAP now limits this process alone; remove that file, or name ");
    message.add("another with RDMALLOC_LEDGER").copy_to(trouble_, sizeof trouble_);
  }
  cap_ = 0;
  return want;
}

// If the file cannot be locked now, the record stays too large until the next time.
void MachineLedger::record_pinned(const Books& own) {
  if (!is_kept() || granted_ == own.pinned || self_.start == 0 || os::is_confined()) return;
  LedgerFile ledger(path_, was_busy_ ? 0 : kPatienceNs);
  LedgerSurvey survey;
  if (!ledger.is_good() || !ledger.survey(self_, group_, &survey) || survey.own == kNowhere) return;
  if (ledger.write(survey.own, record(own, own.pinned))) granted_ = own.pinned;
}

void MachineLedger::say_who_holds(Message* out) const {
  for (const LedgerRecord& holder : holders_) {
    if (holder.granted == 0) continue;
    out->add("; process ").add_number(holder.process.number).add(" has ").add_size(holder.granted);
  }
}

void MachineLedger::note_fork_child() {
  self_ = {};
  granted_ = 0;
}

}  // namespace rdmalloc
