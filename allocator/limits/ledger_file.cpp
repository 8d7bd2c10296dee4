#include "allocator/limits/ledger_file.h"

namespace rdmalloc {
namespace {

constexpr uint64_t kPatienceToReadNs = 200'000'000;

uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

}  // namespace

void LedgerSurvey::add(const LedgerRecord& other) {
  others = sum(others, other.granted);
  LedgerRecord kept = other;
  for (LedgerRecord& place : holders) {
    if (place.granted >= kept.granted) continue;
    const LedgerRecord moved = place;
    place = kept;
    kept = moved;
  }
}

LedgerFile::LedgerFile(const char* path, uint64_t patience_ns) : file_(path, patience_ns) {
  using State = os::LockedFile::State;
  switch (file_.state()) {
    case State::kLocked:
      if (!read_header()) why_ = kDamaged;
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

bool LedgerFile::read_header() {
  if (file_.size() == 0) return file_.write(0, &header_, sizeof header_);
  if (!file_.read(0, &header_, sizeof header_)) return false;
  return header_.magic == kMagic && header_.version == kVersion &&
         header_.records <= kMostRecords && file_.size() >= place(header_.records);
}

bool LedgerFile::fail(const char* why) {
  why_ = why;
  return false;
}

bool LedgerFile::survey(const os::Process& self, uint64_t group, LedgerSurvey* out) {
  *out = {};
  return for_each([&](size_t index, const LedgerRecord& record) {
    if (record.process.number == 0) {
      if (out->free == LedgerSurvey::kNowhere) out->free = index;
    } else if (record.process == self) {
      out->own = index;
    } else if (record.group == group) {
      out->add(record);
    }
    return true;
  });
}

bool LedgerFile::bury_the_dead() {
  return for_each([this](size_t index, const LedgerRecord& record) {
    return record.process.number == 0 || os::is_alive(record.process) || write(index, {});
  });
}

bool LedgerFile::write(size_t index, const LedgerRecord& record) {
  if (!file_.write(place(index), &record, sizeof record)) return fail(kDamaged);
  if (index < header_.records) return true;
  ++header_.records;
  return file_.write(0, &header_, sizeof header_) || fail(kDamaged);
}

void name_ledger(const char* given, char (&path)[LedgerFile::kLongestPath]) {
  Message name;
  if (given[0] != '\0') {
    name.add(given);
  } else {
    name.add("/dev/shm/rdmalloc-").add_number(os::effective_user());
    name.add("-").add_number(os::process_namespace());
  }
  name.copy_to(path, sizeof path);
}

size_t read_ledger_file(const char* path, LedgerRecord* out, size_t most, Message* trouble) {
  LedgerFile ledger(path, kPatienceToReadNs);
  size_t count = 0;
  const bool all = ledger.is_good() && ledger.for_each([&](size_t, const LedgerRecord& record) {
    if (record.process.number == 0 || !os::is_alive(record.process)) return true;
    if (count < most) out[count] = record;
    ++count;
    return true;
  });
  if (all) return count;
  say_trouble_of_ledger(path, ledger.why(), ledger.error(), trouble);
  return SIZE_MAX;
}

void say_trouble_of_ledger(const char* path, const char* why, int error, Message* out) {
  out->add("rdmalloc: the machine's ledger ").add(path).add(" ").add(why);
  if (error != 0) out->add(" (errno ").add_number(static_cast<uint64_t>(error)).add(")");
}

}  // namespace rdmalloc
