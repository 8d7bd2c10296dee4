// The file of a machine's ledger: records, one for each process. Only the numbers in it are
// trusted: it is read into our own memory, and must make sense and belong to the user.
//
// Works inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "allocator/os/file.h"
#include "allocator/os/locked_file.h"
#include "allocator/os/process.h"

namespace rdmalloc {

// As stored in the file.
struct LedgerRecord {
  os::Process process;   // number 0: the record is free
  uint64_t granted = 0;  // bytes it may have pinned
  uint64_t held = 0;     // bytes, pinned or not, when it last asked
  uint64_t cap = 0;      // the limit for all, as this process knows it
  uint64_t group = 0;    // the control group whose limit it is; 0: the machine's
  uint64_t spare[2] = {};
};

// What one pass over the records finds.
struct LedgerSurvey {
  static constexpr size_t kTold = 3;
  static constexpr size_t kNowhere = SIZE_MAX;

  uint64_t others = 0;          // bytes granted to other processes
  size_t own = kNowhere;        // this process's record
  size_t free = kNowhere;       // the first free record
  LedgerRecord holders[kTold];  // of others, the greatest first

  void add(const LedgerRecord& other);
};

// Locked while this object lives.
class [[nodiscard]] LedgerFile {
 public:
  static constexpr size_t kLongestPath = 1024;
  static constexpr uint32_t kMostRecords = 1 << 16;

  LedgerFile(const char* path, uint64_t patience_ns);

  // False: why() says what is wrong with it, and error() the errno, if there is one.
  bool is_good() const { return why_ == nullptr; }
  bool is_busy() const { return is_busy_; }  // another process has it locked
  const char* why() const { return why_; }
  int error() const { return file_.error(); }

  size_t records() const { return header_.records; }  // including free ones

  // Calls visit(index, record) for each record, including free ones. False: visit returned false,
  // or the file is damaged, as why() then says.
  template <typename Visit>
  bool for_each(Visit visit) {
    const os::ReadBuffer memory;
    if (memory.data() == nullptr) return fail("cannot be read for want of memory");
    constexpr size_t kAtOnce = os::ReadBuffer::kSize / sizeof(LedgerRecord);
    auto* const some = reinterpret_cast<LedgerRecord*>(memory.data());
    for (size_t first = 0; first < header_.records; first += kAtOnce) {
      const size_t left = header_.records - first;
      const size_t count = left < kAtOnce ? left : kAtOnce;
      if (!file_.read(place(first), some, count * sizeof *some)) return fail(kDamaged);
      for (size_t i = 0; i < count; ++i) {
        if (some[i].process.number > INT32_MAX) return fail(kDamaged);
        if (!visit(first + i, some[i])) return fail(kDamaged);
      }
    }
    return true;
  }

  // Looks at the processes that share a limit.
  bool survey(const os::Process& self, uint64_t group, LedgerSurvey* out);
  bool bury_the_dead();
  // An index past the last record appends.
  bool write(size_t index, const LedgerRecord& record);

 private:
  static constexpr uint64_t kMagic = 0x7265676465'6c6472;  // "rdledger"
  static constexpr uint32_t kVersion = 1;
  static constexpr const char* kDamaged = "is damaged";
  struct Header {
    uint64_t magic = kMagic;
    uint32_t version = kVersion;
    uint32_t records = 0;  // number of records, including free ones
    uint64_t spare[6] = {};
  };
  static_assert(sizeof(Header) == sizeof(LedgerRecord) && sizeof(Header) == 64);

  static uint64_t place(size_t index) { return sizeof(Header) + index * sizeof(LedgerRecord); }
  bool fail(const char* why);
  bool read_header();

  os::LockedFile file_;
  Header header_;
  const char* why_ = nullptr;
  bool is_busy_ = false;
};

// Writes the ledger's name to `path`: as given, or, if that is empty, the user's own, a separate
// one for each container.
void name_ledger(const char* given, char (&path)[LedgerFile::kLongestPath]);

// Reads all records of the ledger. Returns how many belong to living processes, and copies the
// first `most` of these to `out`. SIZE_MAX: it failed, and *trouble says why.
size_t read_ledger_file(const char* path, LedgerRecord* out, size_t most, Message* trouble);

// Adds a sentence on what is wrong with the ledger.
void say_trouble_of_ledger(const char* path, const char* why, int error, Message* out);

}  // namespace rdmalloc
