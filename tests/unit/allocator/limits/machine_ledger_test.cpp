// The machine's ledger over real files and real processes: who is granted what, and what becomes of
// dead processes' shares.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <random>
#include <string>
#include <vector>

#include "allocator/limits/machine_ledger.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/ledger_process.h"

namespace rdmalloc {
namespace {

using test::LedgerFile;
using test::LedgerProcess;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCap = 64 * kMiB;

struct Fixture {
  LedgerFile file;
  MachineLedger ledger;

  Fixture() { ledger.boot(file.path(), kCap); }
  // How many living processes have a record.
  size_t living() {
    Message trouble;
    return read_ledger_file(file.path(), nullptr, 0, &trouble);
  }
  uint64_t ask(uint64_t pinned, uint64_t need, uint64_t want) {
    return ledger.ask({pinned, pinned}, need, want);
  }
  bool complains(const char* of) const {
    return std::string(ledger.trouble()).find(of) != std::string::npos;
  }
  std::string contents() const {
    std::string text(4096, '\0');
    const int fd = open(file.path(), O_RDONLY);
    const ssize_t got = read(fd, text.data(), text.size());
    close(fd);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }
  void put(const std::string& text) const {
    const int fd = open(file.path(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    close(fd);
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "without a limit for the machine there is no ledger") {
  MachineLedger none;
  none.boot(file.path(), 0);
  CHECK_FALSE(none.is_kept());
  CHECK(access(file.path(), F_OK) != 0);
}

TEST_CASE_METHOD(Fixture, "one process may have all of the limit, and no more") {
  CHECK(ask(0, kMiB, 10 * kMiB) == 10 * kMiB);
  CHECK(ask(10 * kMiB, kMiB, kCap) == 54 * kMiB);
  CHECK(ask(kCap, 1, kMiB) == 0);
  CHECK(ledger.is_kept());
}

TEST_CASE_METHOD(Fixture, "what others were granted is not granted again") {
  LedgerProcess other(file.path(), kCap);
  CHECK(other.ask(kMiB, 40 * kMiB) == 40 * kMiB);
  CHECK(ask(0, 25 * kMiB, 30 * kMiB) == 0);
  CHECK(ask(0, 24 * kMiB, 30 * kMiB) == 24 * kMiB);
  CHECK(other.ask(1, kMiB) == 0);
}

TEST_CASE_METHOD(Fixture,
                 "one file serves control groups and the machine, each with its own limit") {
  MachineLedger of_group;
  of_group.boot(file.path(), kCap, 4711);
  LedgerProcess same(file.path(), kCap, 4711);
  LedgerProcess strange(file.path(), kCap, 815);
  CHECK(same.ask(kMiB, 40 * kMiB) == 40 * kMiB);
  CHECK(strange.ask(kMiB, kCap) == kCap);
  CHECK(of_group.ask({0, 0}, kMiB, kCap) == 24 * kMiB);
  CHECK(of_group.sharers() == 2);
  LedgerProcess of_node(file.path(), kCap);
  CHECK(of_node.ask(kMiB, kCap) == kCap);
}

TEST_CASE_METHOD(Fixture, "how many take part is not known while another has the ledger") {
  CHECK(ask(0, kMiB, kMiB) == kMiB);
  const int fd = open(file.path(), O_RDWR);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  CHECK(ledger.sharers() == 0);
  flock(fd, LOCK_UN);
  close(fd);
  CHECK(ledger.sharers() == 1);
  MachineLedger nowhere;
  nowhere.boot("/nowhere/at/all", kCap, 4711);
  CHECK(nowhere.sharers() == 1);
}

TEST_CASE_METHOD(
    Fixture,
    "a process is seen from when it joins, not only when it asks, and no more once it is dead") {
  MachineLedger mine;
  mine.boot(file.path(), kCap, 4711);
  CHECK(mine.sharers() == 1);
  mine.enter({0, 0});
  CHECK(mine.sharers() == 1);
  LedgerProcess other(file.path(), kCap, 4711);
  CHECK(other.ask(0, 0) == 0);
  CHECK(mine.sharers() == 2);
  other.kill_it();
  CHECK(mine.sharers() == 1);
}

TEST_CASE_METHOD(Fixture, "a refusal says which processes have how much, the greatest first") {
  LedgerProcess small(file.path(), kCap);
  LedgerProcess large(file.path(), kCap);
  CHECK(small.ask(kMiB, kMiB) == kMiB);
  CHECK(large.ask(60 * kMiB, 60 * kMiB) == 60 * kMiB);
  CHECK(ask(0, 4 * kMiB, 4 * kMiB) == 0);
  Message message;
  ledger.say_who_holds(&message);
  char text[256];
  message.copy_to(text, sizeof text);
  CHECK(std::string(text) == "; process " + std::to_string(large.pid()) + " has 60 MiB; process " +
                                 std::to_string(small.pid()) + " has 1 MiB");
}

TEST_CASE_METHOD(Fixture, "what was granted and not pinned goes to others") {
  LedgerProcess other(file.path(), kCap);
  CHECK(other.ask(kMiB, kCap) == kCap);
  CHECK(ask(0, 1, 1) == 0);
  other.give_back(16 * kMiB);
  CHECK(ask(0, 16 * kMiB, 16 * kMiB) == 16 * kMiB);
}

TEST_CASE_METHOD(Fixture, "the share of a process that was killed goes to the next that asks") {
  LedgerProcess other(file.path(), kCap);
  CHECK(other.ask(kMiB, kCap) == kCap);
  CHECK(ask(0, 1, 1) == 0);
  other.kill_it();
  // Nobody has waited for it yet.
  CHECK(ask(0, kCap, kCap) == kCap);
  CHECK(living() == 1);
}

TEST_CASE_METHOD(Fixture, "control: a process that lives keeps its share however often one asks") {
  LedgerProcess other(file.path(), kCap);
  CHECK(other.ask(kMiB, kCap) == kCap);
  for (int i = 0; i < 100; ++i) CHECK(ask(0, 1, 1) == 0);
  CHECK(living() == 1);
}

TEST_CASE_METHOD(Fixture, "a process whose number is used again is not taken for its successor") {
  LedgerProcess other(file.path(), kCap);
  CHECK(other.ask(kMiB, kCap) == kCap);
  std::string text = contents();
  LedgerRecord record;
  REQUIRE(text.size() >= 2 * sizeof record);
  memcpy(&record, text.data() + sizeof record, sizeof record);
  record.process.start -= 1;
  memcpy(text.data() + sizeof record, &record, sizeof record);
  put(text);
  CHECK(ask(0, kCap, kCap) == kCap);
}

TEST_CASE_METHOD(Fixture, "what the process had before exec is its own") {
  CHECK(ask(0, kCap, kCap) == kCap);
  MachineLedger after;
  after.boot(file.path(), kCap);
  CHECK(after.ask({0, 0}, kCap, kCap) == kCap);
}

TEST_CASE_METHOD(Fixture, "a child of fork has a record of its own") {
  CHECK(ask(0, kMiB, kMiB) == kMiB);
  const test::ChildEnd end = test::run_child([this] {
    ledger.note_fork_child();
    return ledger.ask({0, kMiB}, kMiB, kMiB) == kMiB && living() == 2;
  });
  CHECK(end.exited_well());
}

TEST_CASE_METHOD(Fixture, "records of the dead are used again") {
  for (int i = 0; i < 300; ++i) {
    const test::ChildEnd end = test::run_child([this] {
      ledger.note_fork_child();
      return ledger.ask({0, 0}, 1, 1) == 1;
    });
    REQUIRE(end.exited_well());
  }
  struct stat found;
  REQUIRE(stat(file.path(), &found) == 0);
  CHECK(found.st_size < 100 * 64);
}

TEST_CASE_METHOD(Fixture, "a ledger that others may write to is refused, with what to do") {
  put("");
  chmod(file.path(), 0666);
  CHECK(ask(0, kMiB, kCap) == kCap);
  CHECK_FALSE(ledger.is_kept());
  CHECK(complains("others may write"));
  CHECK(complains("RDMALLOC_LEDGER"));
  CHECK(complains(file.path()));
  CHECK(ask(kCap, 1, 2 * kCap) == 2 * kCap);
}

TEST_CASE_METHOD(Fixture, "a ledger that is a link or a folder is refused") {
  if (GENERATE(true, false)) {
    REQUIRE(symlink("/dev/null", file.path()) == 0);
  } else {
    REQUIRE(mkdir(file.path(), 0700) == 0);
  }
  CHECK(ask(0, kMiB, kCap) == kCap);
  CHECK(complains("not this user's own file"));
  rmdir(file.path());
}

TEST_CASE("a ledger where no file can be is refused with the system's number") {
  MachineLedger ledger;
  ledger.boot("/nowhere/at/all", kCap);
  CHECK(ledger.ask({0, 0}, 1, kCap) == kCap);
  CHECK(std::string(ledger.trouble()).find("errno 2") != std::string::npos);
}

TEST_CASE("a ledger whose name depends on the folder is refused") {
  MachineLedger ledger;
  ledger.boot("ledger", kCap);
  CHECK_FALSE(ledger.is_kept());
  CHECK(std::string(ledger.trouble()).find("absolute") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a ledger of another kind, another version or cut short is refused") {
  CHECK(ask(0, kMiB, kMiB) == kMiB);
  std::string text = contents();
  const int way = GENERATE(0, 1, 2, 3, 4);
  if (way == 0) text[0] ^= 1;
  if (way == 1) text[8] ^= 2;
  if (way == 2) text.resize(text.size() - 1);
  if (way == 3) text[15] = 0x7f;
  if (way == 4) text.resize(3);
  put(text);
  MachineLedger after;
  after.boot(file.path(), kCap);
  CHECK(after.ask({0, 0}, kMiB, kMiB) == kMiB);
  CHECK(std::string(after.trouble()).find("is damaged") != std::string::npos);
  CHECK(contents() == text);
}

// Whatever the file contains: the answer comes in time and lies between zero and the request.
TEST_CASE_METHOD(Fixture, "no bytes in the file make an answer that is out of range") {
  CHECK(ask(0, kMiB, kMiB) == kMiB);
  const std::string good = contents();
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    text.resize(text.size() + random() % 200);
    for (size_t changes = random() % 20; changes > 0; --changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    put(text);
    MachineLedger after;
    after.boot(file.path(), kCap);
    const uint64_t granted = after.ask({0, 0}, kMiB, 2 * kMiB);
    CHECK((granted == 0 || (granted >= kMiB && granted <= 2 * kMiB)));
  }
}

TEST_CASE_METHOD(Fixture, "a ledger that somebody has locked for long is gone without, for once") {
  CHECK(ask(0, kMiB, kMiB) == kMiB);
  const int fd = open(file.path(), O_RDWR);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  CHECK(ask(kMiB, kMiB, kMiB) == 0);
  CHECK(ledger.is_kept());
  CHECK(std::string(ledger.trouble()).empty());
  close(fd);
  CHECK(ask(kMiB, kMiB, kMiB) == kMiB);
}

}  // namespace rdmalloc
