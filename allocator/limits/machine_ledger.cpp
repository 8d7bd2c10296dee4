#include "allocator/limits/machine_ledger.h"

#include <string.h>

#include "allocator/os/confinement.h"
#include "allocator/os/limits.h"
#include "allocator/os/locked_file.h"

namespace rdmalloc {
namespace {

// A holder needs some microseconds. If one was stopped while it held the lock, others wait this
// long, once, and then continue without it.
constexpr uint64_t kPatienceNs = 200'000'000;

constexpr uint64_t kPatienceToCountNs = 2'000'000;

constexpr uint64_t kMagic = 0x7265676465'6c6472;  // "rdledger"
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMostRecords = 1 << 16;
constexpr size_t kNowhere = SIZE_MAX;
// Fewer dead records stay until memory is short: checking who is alive takes microseconds each.
constexpr size_t kKeptDead = 64;

struct Header {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t records = 0;  // number of records, including free ones
  uint64_t spare[6] = {};
};
static_assert(sizeof(Header) == sizeof(MachineLedger::Record) && sizeof(Header) == 64);

using os::less;

uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

}  // namespace

// What one pass over the records finds.
struct MachineLedger::Survey {
  uint64_t others = 0;     // bytes granted to other processes
  size_t own = kNowhere;   // this process's record
  size_t free = kNowhere;  // the first free record
  Record holders[kTold];

  void add(const Record& record) {
    others = sum(others, record.granted);
    Record kept = record;
    for (Record& place : holders) {
      if (place.granted >= kept.granted) continue;
      const Record moved = place;
      place = kept;
      kept = moved;
    }
  }
};

class MachineLedger::Open {
 public:
  Open(const char* path, uint64_t patience_ns) : file_(path, patience_ns) {
    using State = os::LockedFile::State;
    switch (file_.state()) {
      case State::kLocked:
        if (!read_header()) why_ = "is damaged";
        break;
      case State::kBusy:
        is_busy_ = true;
        why_ = "is locked by another process";
        break;
      case State::kForeign:
        why_ = "is not this user's own file, or others may write to it";
        break;
      case State::kFailed:
        why_ = "cannot be used";
        break;
    }
  }

  bool is_good() const { return why_ == nullptr; }
  bool is_busy() const { return is_busy_; }
  const char* why() const { return why_; }
  int error() const { return file_.error(); }
  size_t records() const { return header_.records; }

  // Calls visit(index, record) for each record, including free ones. False: visit returned false,
  // or the file is damaged, as why() then says.
  template <typename Visit>
  bool for_each(Visit visit) {
    constexpr size_t kAtOnce = 32;
    Record some[kAtOnce];
    for (size_t first = 0; first < header_.records; first += kAtOnce) {
      const size_t left = header_.records - first;
      const size_t count = left < kAtOnce ? left : kAtOnce;
      if (!file_.read(place(first), some, count * sizeof *some)) return damaged();
      for (size_t i = 0; i < count; ++i) {
        if (some[i].process.number > INT32_MAX) return damaged();
        if (!visit(first + i, some[i])) return damaged();
      }
    }
    return true;
  }

  // Looks at the processes that share a limit.
  bool survey(const os::Process& self, uint64_t group, Survey* out) {
    *out = {};
    return for_each([&](size_t index, const Record& record) {
      if (record.process.number == 0) {
        if (out->free == kNowhere) out->free = index;
      } else if (record.process == self) {
        out->own = index;
      } else if (record.group == group) {
        out->add(record);
      }
      return true;
    });
  }

  bool bury_the_dead() {
    return for_each([this](size_t index, const Record& record) {
      return record.process.number == 0 || os::is_alive(record.process) || write(index, {});
    });
  }

  // An index past the last record appends.
  bool write(size_t index, const Record& record) {
    if (!file_.write(place(index), &record, sizeof record)) return damaged();
    if (index < header_.records) return true;
    ++header_.records;
    return file_.write(0, &header_, sizeof header_) || damaged();
  }

 private:
  static uint64_t place(size_t index) { return sizeof(Header) + index * sizeof(Record); }

  bool damaged() {
    why_ = "is damaged";
    return false;
  }

  bool read_header() {
    if (file_.size() == 0) return file_.write(0, &header_, sizeof header_);
    if (!file_.read(0, &header_, sizeof header_)) return false;
    return header_.magic == kMagic && header_.version == kVersion &&
           header_.records <= kMostRecords && file_.size() >= place(header_.records);
  }

  os::LockedFile file_;
  Header header_;
  const char* why_ = nullptr;
  bool is_busy_ = false;
};

void MachineLedger::boot(const char* path, uint64_t cap, uint64_t group) {
  cap_ = cap;
  group_ = group;
  if (cap == 0) return;
  Message name;
  if (path[0] != '\0') {
    name.add(path);
  } else {
    name.add("/dev/shm/rdmalloc-").add_number(os::effective_user());
    name.add("-").add_number(os::process_namespace());
  }
  name.copy_to(path_, sizeof path_);
  // With a relative name, a program that changes its working directory would use two ledgers.
  if (path_[0] != '/') (void)give_up("has no absolute name", 0, 0);
}

MachineLedger::Record MachineLedger::record(const Books& own, uint64_t granted) const {
  Record record;
  record.process = self_;
  record.granted = granted;
  record.held = own.held;
  record.cap = cap_;
  record.group = group_;
  return record;
}

uint64_t MachineLedger::ask(const Books& own, uint64_t need, uint64_t want) {
  // The file cannot be opened in a sandbox, and the other processes rely on the sum.
  if (os::is_confined()) return 0;
  if (self_.start == 0) self_ = os::this_process();
  Open ledger(path_, was_busy_ ? 0 : kPatienceNs);
  was_busy_ = ledger.is_busy();
  if (was_busy_) return 0;
  if (!ledger.is_good()) return give_up(ledger.why(), ledger.error(), want);
  const uint64_t granted = grant(&ledger, own, need, want);
  return ledger.is_good() ? granted : give_up(ledger.why(), ledger.error(), want);
}

// A record from before exec() belongs to this same process: it is rewritten.
uint64_t MachineLedger::grant(Open* ledger, const Books& own, uint64_t need, uint64_t want) {
  Survey survey;
  if (!ledger->survey(self_, group_, &survey)) return 0;
  const auto room = [&] { return less(less(cap_, own.pinned), survey.others); };
  const bool has_place = survey.own != kNowhere || survey.free != kNowhere;
  if (room() < want || (!has_place && ledger->records() >= kKeptDead)) {
    if (!ledger->bury_the_dead() || !ledger->survey(self_, group_, &survey)) return 0;
  }
  size_t place = survey.own != kNowhere ? survey.own : survey.free;
  if (place == kNowhere) place = ledger->records();
  if (room() < need || place >= kMostRecords) {
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
  Open ledger(path_, kPatienceToCountNs);
  if (ledger.is_busy()) return 0;
  const uint64_t self = os::process_number();
  size_t others = 0;
  const auto count = [&](size_t, const Record& record) {
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
    complain(why, error,
             ": RDMALLOC_NODE_CAP now limits this process alone; remove that file, or name another "
             "with RDMALLOC_LEDGER");
  }
  cap_ = 0;
  return want;
}

void MachineLedger::complain(const char* why, int error, const char* consequence) {
  Message message;
  message.add("rdmalloc: the machine's ledger ").add(path_).add(" ").add(why);
  if (error != 0) message.add(" (errno ").add_number(static_cast<uint64_t>(error)).add(")");
  message.add(consequence);
  message.copy_to(trouble_, sizeof trouble_);
}

// If the file cannot be locked now, the record stays too large until the next time.
void MachineLedger::record_pinned(const Books& own) {
  if (!is_kept() || granted_ == own.pinned || self_.start == 0 || os::is_confined()) return;
  Open ledger(path_, was_busy_ ? 0 : kPatienceNs);
  Survey survey;
  if (!ledger.is_good() || !ledger.survey(self_, group_, &survey) || survey.own == kNowhere) return;
  if (ledger.write(survey.own, record(own, own.pinned))) granted_ = own.pinned;
}

void MachineLedger::say_who_holds(Message* out) const {
  for (const Record& holder : holders_) {
    if (holder.granted == 0) continue;
    out->add("; process ").add_number(holder.process.number).add(" has ").add_size(holder.granted);
  }
}

void MachineLedger::note_fork_child() {
  self_ = {};
  granted_ = 0;
}

size_t MachineLedger::read(Record* out, size_t most) {
  Open ledger(path_, kPatienceNs);
  size_t count = 0;
  const bool all = ledger.is_good() && ledger.for_each([&](size_t, const Record& record) {
    if (record.process.number == 0 || !os::is_alive(record.process)) return true;
    if (count < most) out[count] = record;
    ++count;
    return true;
  });
  if (all) return count;
  complain(ledger.why(), ledger.error(), "");
  return SIZE_MAX;
}

}  // namespace rdmalloc
