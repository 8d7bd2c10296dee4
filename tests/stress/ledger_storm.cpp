// Processes on one ledger start, grow, shrink, end and are killed at any point: their grants never
// exceed the machine's limit, and no share is lost forever.
//
//   stress_ledger_storm [STARTS]
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>

#include "allocator/os/locked_file.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/ledger_process.h"

namespace rdmalloc {
namespace {

constexpr size_t kProcesses = 64;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kCap = 1000 * kPage;

// What each process considers its own, in shared memory: from just after the grant until just
// before the return.
struct Claims {
  std::atomic<uint64_t> bytes[kProcesses];
  std::atomic<uint64_t> grants;
  std::atomic<uint64_t> refusals;
};

class Storm {
 public:
  // `apart`: each process has its own ledger, which must fail.
  explicit Storm(bool apart) : apart_(apart) {
    void* shared =
        mmap(nullptr, sizeof(Claims), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    claims_ = new (shared) Claims;
  }
  ~Storm() {
    for (size_t i = 0; i < kProcesses; ++i) end(i);
    munmap(claims_, sizeof(Claims));
  }

  // Returns how often the claims exceeded the limit.
  int run(int starts) {
    int exceeded = 0;
    for (int i = 0; i < starts; ++i) {
      const size_t which = random_() % kProcesses;
      end(which);
      start(which);
      if (i % 8 == 0 && claimed() > kCap) ++exceeded;
    }
    return exceeded;
  }

  uint64_t grants() const { return claims_->grants; }
  uint64_t refusals() const { return claims_->refusals; }

  // Kills all processes; returns what one process is then granted of the whole limit.
  uint64_t left_at_the_end() {
    for (size_t i = 0; i < kProcesses; ++i) end(i);
    LedgerProcessOf last(file_.path(), kCap);
    return last.ask(1, kCap);
  }

 private:
  using LedgerProcessOf = test::LedgerProcess;

  void start(size_t which) {
    const auto seed = static_cast<uint32_t>(random_());
    pids_[which] = test::fork_bound();
    if (pids_[which] == 0) live(which, seed);
    REQUIRE(pids_[which] > 0);
  }

  // It is killed at any point; some have already ended by themselves.
  void end(size_t which) {
    if (pids_[which] <= 0) return;
    test::kill_child(pids_[which]);
    claims_->bytes[which] = 0;
    pids_[which] = 0;
  }

  [[noreturn]] void live(size_t which, uint32_t seed) {
    std::mt19937 random(seed);
    MachineLedger ledger;
    const std::string own = std::string(file_.path()) + "-" + std::to_string(which);
    ledger.boot(apart_ ? own.c_str() : file_.path(), kCap);
    uint64_t pinned = 0;
    for (size_t turn = 1 + random() % 20; turn > 0; --turn) {
      const uint64_t want = (1 + random() % 100) * kPage;
      const uint64_t granted = ledger.ask({pinned, pinned}, kPage, want);
      if (!ledger.is_kept()) abort();
      pinned += granted;
      ++(granted == 0 ? claims_->refusals : claims_->grants);
      claims_->bytes[which] = pinned;
      sched_yield();
      if (random() % 2 == 0) {
        pinned -= pinned / 2 / kPage * kPage;
        claims_->bytes[which] = pinned;
        ledger.record_pinned({pinned, pinned});
      }
    }
    if (apart_) unlink(own.c_str());
    if (random() % 2 == 0) pause();
    claims_->bytes[which] = 0;
    _exit(0);
  }

  // No grants happen meanwhile, so the sum is at most what was claimed at one moment.
  uint64_t claimed() {
    os::LockedFile lock(file_.path(), 10'000'000'000);
    REQUIRE(lock.state() == os::LockedFile::State::kLocked);
    uint64_t sum = 0;
    for (const auto& bytes : claims_->bytes) sum += bytes;
    return sum;
  }

  const bool apart_;
  test::LedgerFile file_;
  Claims* claims_ = nullptr;
  pid_t pids_[kProcesses] = {};
  std::mt19937 random_{1};
};

int starts() {
  const char* told = getenv("LEDGER_STARTS");
  return told != nullptr ? atoi(told) : 1000;
}

}  // namespace

TEST_CASE("what a node's processes are granted never exceeds its limit, and nothing is lost") {
  Storm storm(false);
  CHECK(storm.run(starts()) == 0);
  CHECK(storm.grants() > static_cast<uint64_t>(starts()) / 4);
  CHECK(storm.refusals() > 0);
  CHECK(storm.left_at_the_end() == kCap);
}

TEST_CASE("control: processes that do not share a ledger exceed the limit") {
  Storm storm(true);
  CHECK(storm.run(500) > 0);
}

}  // namespace rdmalloc
