#include "allocator/limits/budget.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/fake_os.h"
#include "tests/support/ledger_process.h"

namespace rdmalloc {
namespace {

const size_t kPage = os::page_size();
constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kGiB = 1024 * kMiB;

struct Fixture {
  Fixture() {
    fake::reset();
    fake::machine().total = 16 * kGiB;
    fake::machine().available = 16 * kGiB;
  }
  ~Fixture() { fake::reset(); }

  void boot(std::initializer_list<const char*> settings = {}) {
    for (const char* setting : settings) {
      fake::environment().push_back(std::string("RDMALLOC_") + setting);
    }
    options.load();
    REQUIRE(std::string(options.warning()).empty());
    if (looks) {
      budget.boot_and_look(options);
    } else {
      budget.boot(options);
    }
  }
  void memlock(uint64_t soft, bool capable = false) {
    fake::machine().lock = {soft, soft, capable};
  }
  // Asks as the heap does.
  Grant ask(size_t need, size_t want) {
    const Grant pinned = budget.ask_pinned(need, want);
    return pinned.bytes != 0 ? pinned : budget.ask_overflow(need, want);
  }
  Grant take(size_t need, size_t want) {
    const Grant grant = ask(need, want);
    if (grant.bytes > 0) budget.charges().charge(grant.kind, grant.bytes);
    return grant;
  }

  bool looks = true;
  Options options;
  Budget budget;
};

// A process that stays small.
struct Unlooked : Fixture {
  Unlooked() { looks = false; }
};

bool is(Grant grant, RegionKind kind, size_t bytes) {
  return grant.bytes == bytes && grant.kind == kind;
}

}  // namespace

TEST_CASE_METHOD(Fixture, "the cap is bytes when it says bytes") {
  boot({"CAP=1M"});
  CHECK(budget.pin_limit().bytes() == kMiB);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kCap);
}

TEST_CASE_METHOD(Fixture, "the cap is a share of memory when it says percent") {
  boot({"CAP=25%"});
  CHECK(budget.pin_limit().bytes() == 4 * kGiB);
}

TEST_CASE_METHOD(Fixture, "the cap is a share of the memlock limit when it says so") {
  memlock(8 * kMiB);
  boot({"CAP=50%memlock", "HEADROOM=0"});
  CHECK(budget.pin_limit().bytes() == 4 * kMiB);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kCap);
}

TEST_CASE_METHOD(Fixture, "a share of no memlock limit is no limit, and memory still is one") {
  boot({"CAP=50%memlock"});
  CHECK(budget.pin_limit().bytes() > 16 * kGiB);
  fake::machine().available = 64 * kMiB;
  CHECK(ask(128 * kMiB, 128 * kMiB).kind == RegionKind::kOverflow);
}

TEST_CASE_METHOD(Fixture, "a cap of 0 pins nothing") {
  boot({"CAP=0"});
  CHECK(budget.pin_limit().bytes() == 0);
  CHECK(is(take(kPage, kMiB), RegionKind::kOverflow, kMiB));
  CHECK(budget.charges().pinned() == 0);
}

TEST_CASE_METHOD(Fixture, "a cap above the machine's memory pins what is available, no more") {
  boot({"CAP=1T", "MEMORY_CAP=1T"});
  CHECK(budget.pin_limit().bytes() == 1024 * kGiB);
  // 1/64 of memory is left free.
  const size_t most = 16 * kGiB - 16 * kGiB / 64;
  CHECK(is(ask(kPage, 100 * kGiB), RegionKind::kPinned, most));
  CHECK(is(ask(most, most), RegionKind::kPinned, most));
  CHECK(is(ask(most + kPage, most + kPage), RegionKind::kOverflow, most + kPage));
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kAvailable);
}

TEST_CASE_METHOD(Fixture, "the memlock limit less the headroom is what may be pinned") {
  const auto [soft, expected] = GENERATE(table<size_t, size_t>(
      {{0, 0}, {64 * kKiB, os::page_floor(56 * kKiB)}, {8 * kMiB, os::page_floor(7548928)}}));
  memlock(soft);
  boot();
  CHECK(budget.pin_limit().bytes() == expected);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kMemlock);
  const size_t need = expected + kPage;
  CHECK(is(ask(need, need), RegionKind::kOverflow, need));
  if (expected > 0) CHECK(is(ask(expected, kGiB), RegionKind::kPinned, expected));
}

TEST_CASE_METHOD(Fixture, "the headroom may be bytes, and more than there is leaves nothing") {
  memlock(8 * kMiB);
  SECTION("bytes") {
    boot({"HEADROOM=6M"});
    CHECK(budget.pin_limit().bytes() == 2 * kMiB);
  }
  SECTION("too many") {
    boot({"HEADROOM=1G"});
    CHECK(budget.pin_limit().bytes() == 0);
  }
}

TEST_CASE_METHOD(Fixture, "CAP_IPC_LOCK lifts the memlock limit") {
  memlock(64 * kKiB, true);
  boot({"CAP=1G"});
  CHECK(budget.pin_limit().bytes() == kGiB);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kCap);
}

TEST_CASE_METHOD(Fixture, "a control group smaller than the machine is its memory") {
  fake::machine().cgroup = kGiB;
  boot();
  CHECK(budget.memory().total() == kGiB);
  CHECK(budget.pin_limit().bytes() ==
        kGiB / 100 * 80 / kPage * kPage + 4 * (kGiB % 100) / 5 / kPage);
  CHECK(budget.memory().cap() == static_cast<uint64_t>(kGiB) * 95 / 100);
}

TEST_CASE_METHOD(Fixture,
                 "of a small control group the memory cap leaves room for the process itself") {
  const auto [group, expected] =
      GENERATE(table<size_t, size_t>({{64 * kMiB, 56 * kMiB}, {8 * kMiB, 4 * kMiB}}));
  fake::machine().cgroup = group;
  boot({"MEMORY_CAP=100%"});
  CHECK(budget.memory().cap() == expected);
}

TEST_CASE_METHOD(Fixture, "limits that are no page multiple are rounded down") {
  memlock(70000);
  boot({"HEADROOM=0"});
  CHECK(budget.pin_limit().bytes() == 70000 / kPage * kPage);
}

TEST_CASE_METHOD(Fixture, "a grant shrinks to what is needed before it overflows") {
  boot({"CAP=1M"});
  CHECK(is(take(kPage, 768 * kKiB), RegionKind::kPinned, 768 * kKiB));
  CHECK(is(take(kPage, 768 * kKiB), RegionKind::kPinned, 256 * kKiB));
  CHECK(is(take(kPage, 768 * kKiB), RegionKind::kOverflow, 768 * kKiB));
  CHECK(budget.charges().pinned() == kMiB);
  CHECK(budget.charges().overflow() == 768 * kKiB);
  CHECK(budget.charges().held() == kMiB + 768 * kKiB);
}

TEST_CASE_METHOD(Fixture, "strict refuses where others overflow") {
  boot({"CAP=1M", "STRICT=on"});
  CHECK(is(take(kMiB, kMiB), RegionKind::kPinned, kMiB));
  CHECK(take(kPage, kPage).bytes == 0);
  CHECK(budget.charges().overflow() == 0);
}

TEST_CASE_METHOD(Fixture, "what must be pinned is refused where other memory overflows") {
  boot({"CAP=1M", "MEMORY_CAP=64M"});
  CHECK(is(budget.ask_pinned(kMiB, 4 * kMiB), RegionKind::kPinned, kMiB));
  CHECK(budget.ask_pinned(2 * kMiB, 2 * kMiB).bytes == 0);
  CHECK(is(take(2 * kMiB, 2 * kMiB), RegionKind::kOverflow, 2 * kMiB));
  CHECK(is(take(kMiB, kMiB), RegionKind::kPinned, kMiB));
  CHECK(budget.ask_pinned(kPage, kPage).bytes == 0);
}

TEST_CASE_METHOD(Fixture, "beyond the memory cap nothing is granted, pinned or not") {
  boot({"CAP=1M", "MEMORY_CAP=2M"});
  CHECK(take(3 * kMiB, 3 * kMiB).bytes == 0);
  CHECK(is(take(kMiB, kMiB), RegionKind::kPinned, kMiB));
  CHECK(is(take(kPage, 4 * kMiB), RegionKind::kOverflow, kMiB));
  CHECK(take(kPage, kPage).bytes == 0);
  CHECK(budget.ask_unpinned(RegionKind::kSparse, kPage, kPage).bytes == 0);
  CHECK(budget.charges().held() == 2 * kMiB);
}

TEST_CASE_METHOD(Fixture, "the memory cap bounds pinned memory too") {
  boot({"CAP=8M", "MEMORY_CAP=2M"});
  CHECK(is(take(kPage, 8 * kMiB), RegionKind::kPinned, 2 * kMiB));
}

TEST_CASE_METHOD(Fixture,
                 "where no more may be held the cap is blamed only if it is reached, too") {
  const bool is_reached = GENERATE(false, true);
  boot({is_reached ? "CAP=2M" : "CAP=8M", "MEMORY_CAP=2M"});
  REQUIRE(is(take(kPage, 8 * kMiB), RegionKind::kPinned, 2 * kMiB));
  CHECK(budget.ask_pinned(kPage, kPage).bytes == 0);
  CHECK(budget.pin_limit().limited_by() == (is_reached ? LimitedBy::kCap : LimitedBy::kAvailable));
}

TEST_CASE_METHOD(Fixture, "what is not available is not populated") {
  fake::machine().available = kGiB;
  boot();
  CHECK(ask(2 * kGiB, 2 * kGiB).kind == RegionKind::kOverflow);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kAvailable);
  CHECK(is(ask(kPage, 2 * kGiB), RegionKind::kPinned, kGiB - 16 * kGiB / 64));
}

TEST_CASE_METHOD(Fixture, "what makes memory available again lets it be pinned again") {
  fake::machine().available = 0;
  boot({"CAP=8G"});
  CHECK(ask(kGiB, kGiB).kind == RegionKind::kOverflow);
  fake::machine().available = 16 * kGiB;
  CHECK(ask(kGiB, kGiB).kind == RegionKind::kPinned);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kCap);
}

TEST_CASE_METHOD(Fixture,
                 "no more is taken ahead of need than is left, and what is needed all the same") {
  fake::machine().to_touch = kGiB;
  boot({"CAP=0"});
  CHECK(is(ask(kPage, 2 * kGiB), RegionKind::kOverflow, kGiB - 16 * kMiB));
  CHECK(is(ask(2 * kGiB, 3 * kGiB), RegionKind::kOverflow, 2 * kGiB));
  CHECK(is(ask(16 * kGiB, 16 * kGiB), RegionKind::kOverflow, 16 * kGiB));
}

TEST_CASE_METHOD(Fixture, "where nothing is left to touch overflow is refused, instead of a kill") {
  fake::machine().to_touch = 16 * kMiB;
  boot({"CAP=0"});
  CHECK(ask(16 * kMiB, 16 * kMiB).bytes == 0);
  fake::machine().to_touch = 16 * kMiB + kPage;
  CHECK(is(ask(16 * kMiB, 32 * kMiB), RegionKind::kOverflow, 16 * kMiB));
}

TEST_CASE_METHOD(Fixture, "a small control group is used but for 2 MiB") {
  fake::machine().cgroup = 64 * kMiB;
  fake::machine().to_touch = 20 * kMiB;
  boot({"CAP=0"});
  CHECK(is(ask(kPage, 64 * kMiB), RegionKind::kOverflow, 18 * kMiB));
}

TEST_CASE_METHOD(Fixture, "what no malloc would be given is refused, and swap is memory") {
  boot({"CAP=0"});
  CHECK(ask(16 * kGiB + kPage, 16 * kGiB + kPage).bytes == 0);
  CHECK(budget.ask_unpinned(RegionKind::kSparse, 17 * kGiB, 17 * kGiB).bytes == 0);
  fake::machine().swap = kGiB;
  CHECK(ask(17 * kGiB, 17 * kGiB).bytes == 17 * kGiB);
}

TEST_CASE_METHOD(Fixture, "memory that is only asked for has no cap but the user's") {
  const bool is_capped = GENERATE(false, true);
  if (is_capped) fake::environment().emplace_back("RDMALLOC_MEMORY_CAP=95%");
  boot({"CAP=0"});
  REQUIRE(take(15 * kGiB, 15 * kGiB).bytes != 0);
  CHECK((take(kGiB, kGiB).bytes == 0) == is_capped);
  CHECK((budget.ask_unpinned(RegionKind::kSparse, 2 * kGiB, 2 * kGiB).bytes == 0) == is_capped);
}

// A control group of 1 GiB.
struct Grouped : Fixture {
  Grouped() {
    fake::machine().cgroup = kGiB;
    fake::machine().group = {kGiB, 4711};
  }
  void boot(std::initializer_list<const char*> settings = {}) {
    fake::environment().push_back(std::string("RDMALLOC_LEDGER=") + file.path());
    Fixture::boot(settings);
  }

  test::LedgerFile file;
};

TEST_CASE_METHOD(Grouped, "processes of a control group pin no more together than its limit") {
  test::LedgerProcess other(file.path(), kGiB, 4711);
  test::LedgerProcess stranger(file.path(), kGiB, 815);
  REQUIRE(other.ask(700 * kMiB, 700 * kMiB) == 700 * kMiB);
  REQUIRE(stranger.ask(700 * kMiB, 700 * kMiB) == 700 * kMiB);
  boot();
  // 1/20 of the group may not be pinned.
  CHECK(is(ask(kPage, 600 * kMiB), RegionKind::kPinned,
           os::page_floor(kGiB - kGiB / 20 - 700 * kMiB)));
  CHECK(ask(600 * kMiB, 600 * kMiB).kind == RegionKind::kOverflow);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kAvailable);
}

TEST_CASE_METHOD(Grouped, "ahead of need a process has no more than its share of a control group") {
  boot({"POPULATE=now"});
  const uint64_t alone = budget.shared().room_ahead();
  test::LedgerProcess other(file.path(), kGiB, 4711);
  REQUIRE(other.ask(0, 0) == 0);
  const uint64_t with_another = budget.shared().room_ahead();
  CHECK(alone > kGiB / 2);
  CHECK(with_another < kGiB / 2);
  CHECK(with_another > kGiB / 4);
  CHECK(budget.memory().room_to_populate() > kGiB);
}

TEST_CASE_METHOD(Grouped, "ahead of need a rank leaves their shares to ranks that start later") {
  fake::environment().emplace_back("OMPI_COMM_WORLD_LOCAL_SIZE=4");
  boot();
  test::LedgerProcess other(file.path(), kGiB, 4711);
  REQUIRE(other.ask(0, 0) == 0);
  CHECK(budget.shared().room_ahead() < kGiB / 4);
  CHECK(budget.shared().room_ahead() > kGiB / 8);
}

TEST_CASE_METHOD(Grouped, "ahead of need a control group is filled to a sixteenth, by all of it") {
  fake::machine().available = kGiB;
  boot();
  CHECK(budget.shared().room_ahead() < kGiB / 16);
  CHECK(budget.shared().room_ahead() > kGiB / 64);
  fake::machine().available = kGiB - kGiB / 16;
  CHECK(budget.shared().room_ahead() == 0);
  CHECK(budget.memory().room_to_populate() > kGiB / 2);
}

TEST_CASE_METHOD(Fixture,
                 "a ledger that nobody asked for costs no sentence where there can be none") {
  fake::machine().cgroup = kGiB;
  fake::machine().group = {kGiB, 4711};
  boot({"LEDGER=/nowhere/at/all"});
  CHECK(ask(64 * kMiB, 64 * kMiB).kind == RegionKind::kPinned);
  CHECK(std::string(budget.shared().ledger().trouble()).empty());
}

TEST_CASE_METHOD(Fixture, "a memory cap in bytes may exceed the memory") {
  boot({"MEMORY_CAP=1T"});
  CHECK(budget.memory().cap() == size_t{1} << 40);
}

TEST_CASE_METHOD(Fixture, "a small heap does not look at what is available") {
  fake::machine().available = 0;
  boot();
  CHECK(is(take(kPage, 8 * kMiB), RegionKind::kPinned, 8 * kMiB));
  CHECK(take(kPage, kPage).kind == RegionKind::kOverflow);
}

TEST_CASE_METHOD(Fixture,
                 "after a refusal that nothing explains, no more is granted than is pinned") {
  boot();
  REQUIRE(take(kMiB, kMiB).kind == RegionKind::kPinned);
  budget.note_refusal(kMiB);
  CHECK(budget.pin_limit().bytes() == kMiB);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kMemlock);
  CHECK(take(kPage, kPage).kind == RegionKind::kOverflow);
}

TEST_CASE_METHOD(Fixture, "what others unlock may be pinned after a refusal") {
  fake::machine().lock = {8 * kMiB, 8 * kMiB, false};
  fake::machine().locked_by_others = 6 * kMiB;
  boot({"HEADROOM=0"});
  REQUIRE(ask(4 * kMiB, 4 * kMiB).kind == RegionKind::kPinned);
  budget.note_refusal(4 * kMiB);
  CHECK(ask(4 * kMiB, 4 * kMiB).kind == RegionKind::kOverflow);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kMemlock);
  fake::machine().locked_by_others = 0;
  CHECK(ask(4 * kMiB, 4 * kMiB).kind == RegionKind::kPinned);
}

TEST_CASE_METHOD(Fixture, "a memlock limit that is raised while the program runs is used") {
  memlock(8 * kMiB);
  boot({"HEADROOM=0"});
  REQUIRE(is(take(8 * kMiB, 8 * kMiB), RegionKind::kPinned, 8 * kMiB));
  CHECK(ask(kMiB, kMiB).kind == RegionKind::kOverflow);
  memlock(32 * kMiB);
  CHECK(is(take(16 * kMiB, 16 * kMiB), RegionKind::kPinned, 16 * kMiB));
  CHECK(budget.pin_limit().bytes() == 32 * kMiB);
  CHECK(is(take(kMiB, 16 * kMiB), RegionKind::kPinned, 8 * kMiB));
  memlock(0, true);
  CHECK(is(take(64 * kMiB, 64 * kMiB), RegionKind::kPinned, 64 * kMiB));
}

TEST_CASE_METHOD(Fixture, "a memlock limit that is lowered while the program runs is kept") {
  memlock(64 * kMiB);
  boot({"HEADROOM=50%memlock"});
  REQUIRE(is(take(8 * kMiB, 8 * kMiB), RegionKind::kPinned, 8 * kMiB));
  memlock(32 * kMiB);
  CHECK(is(take(kMiB, 32 * kMiB), RegionKind::kPinned, 8 * kMiB));
  CHECK(ask(kMiB, kMiB).kind == RegionKind::kOverflow);
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kMemlock);
  memlock(4 * kMiB);
  CHECK(ask(kPage, kPage).kind == RegionKind::kOverflow);
  CHECK(budget.pin_limit().bytes() == budget.charges().pinned());
  memlock(64 * kMiB);
  CHECK(is(ask(kMiB, 64 * kMiB), RegionKind::kPinned, 16 * kMiB));
}

TEST_CASE_METHOD(Fixture, "a process that gives up CAP_IPC_LOCK learns so from the first refusal") {
  memlock(8 * kMiB, true);
  boot({"HEADROOM=0"});
  REQUIRE(ask(64 * kMiB, 64 * kMiB).kind == RegionKind::kPinned);
  memlock(8 * kMiB);
  budget.note_refusal(64 * kMiB);
  CHECK(budget.pin_limit().bytes() == 8 * kMiB);
  CHECK(is(take(kMiB, 64 * kMiB), RegionKind::kPinned, 8 * kMiB));
  memlock(16 * kMiB);
  CHECK(is(ask(kMiB, 64 * kMiB), RegionKind::kPinned, 8 * kMiB));
}

TEST_CASE_METHOD(Fixture, "a capability that does not count does not hide that the limit changes") {
  memlock(8 * kMiB, true);
  boot({"HEADROOM=0"});
  budget.note_refusal(64 * kMiB);
  CHECK(is(take(kMiB, 64 * kMiB), RegionKind::kPinned, 8 * kMiB));
  memlock(16 * kMiB, true);
  CHECK(is(ask(kMiB, 64 * kMiB), RegionKind::kPinned, 8 * kMiB));
}

TEST_CASE_METHOD(Fixture, "another limit is worth another try after a refusal for good") {
  memlock(8 * kMiB);
  boot({"HEADROOM=0"});
  budget.note_refusal(kMiB);
  REQUIRE(budget.pin_limit().bytes() == 0);
  CHECK(ask(kMiB, kMiB).kind == RegionKind::kOverflow);
  memlock(16 * kMiB);
  CHECK(ask(kMiB, kMiB).kind == RegionKind::kPinned);
}

TEST_CASE_METHOD(Fixture, "a cap that is a share of the memlock limit changes with it") {
  memlock(8 * kMiB);
  boot({"HEADROOM=0", "CAP=50%memlock"});
  CHECK(budget.pin_limit().bytes() == 4 * kMiB);
  memlock(64 * kMiB);
  CHECK(is(ask(kMiB, 64 * kMiB), RegionKind::kPinned, 32 * kMiB));
  CHECK(budget.pin_limit().limited_by() == LimitedBy::kCap);
}

TEST_CASE_METHOD(Fixture, "a forked child holds the memory and none of the pins") {
  boot();
  REQUIRE(take(kMiB, kMiB).kind == RegionKind::kPinned);
  budget.note_fork_child();
  CHECK(budget.charges().pinned() == 0);
  CHECK(budget.charges().peak_pinned() == 0);
  CHECK(budget.charges().held() == kMiB);
}

TEST_CASE_METHOD(Fixture, "sparse memory is charged apart and never pinned") {
  boot();
  const Grant grant = budget.ask_unpinned(RegionKind::kSparse, kGiB, kGiB);
  CHECK(is(grant, RegionKind::kSparse, kGiB));
  budget.charges().charge(grant.kind, grant.bytes);
  CHECK(budget.charges().sparse() == kGiB);
  CHECK(budget.charges().pinned() == 0);
  CHECK(budget.charges().held() == kGiB);
}

TEST_CASE_METHOD(Fixture, "requests near the end of the address space are refused") {
  boot();
  const size_t huge = SIZE_MAX / kPage * kPage;
  CHECK(ask(huge, huge).bytes == 0);
  CHECK(budget.ask_unpinned(RegionKind::kSparse, huge, huge).bytes == 0);
}

TEST_CASE("every limit has a name") {
  CHECK(std::string(name(LimitedBy::kCap)) == "cap");
  CHECK(std::string(name(LimitedBy::kMemlock)) == "memlock");
  CHECK(std::string(name(LimitedBy::kAvailable)) == "available");
}

TEST_CASE_METHOD(Unlooked, "a process that stays small does not read its control group's limit") {
  fake::machine().cgroup = kGiB;
  boot();
  CHECK(budget.memory().total() == 16 * kGiB);
  CHECK(is(take(kPage, 256 * kKiB), RegionKind::kPinned, 256 * kKiB));
  CHECK(budget.memory().total() == 16 * kGiB);

  CHECK(is(take(kPage, 2 * kMiB), RegionKind::kPinned, 2 * kMiB));
  CHECK(budget.memory().total() == kGiB);
}

TEST_CASE_METHOD(Unlooked, "the memlock limit and the user's own hold from the first byte") {
  memlock(kMiB);
  SECTION("memlock") {
    boot();
    CHECK(budget.pin_limit().bytes() == os::page_floor(kMiB - kMiB / 10));
    CHECK(is(take(kPage, kMiB), RegionKind::kPinned, budget.pin_limit().bytes()));
    CHECK(is(take(kMiB, kMiB), RegionKind::kOverflow, kMiB));
  }
  SECTION("memory_cap") {
    boot({"MEMORY_CAP=128K"});
    CHECK(take(256 * kKiB, 256 * kKiB).bytes == 0);
  }
  SECTION("a share of the control group") {
    fake::machine().cgroup = 8 * kMiB;
    boot({"CAP=5%"});
    CHECK(budget.pin_limit().bytes() == os::page_floor(8 * kMiB / 20));
  }
}

TEST_CASE_METHOD(Unlooked, "a right to lock without a limit is found before it is needed") {
  memlock(kMiB, true);
  boot();
  CHECK(is(take(kMiB, kMiB), RegionKind::kPinned, kMiB));
  CHECK(is(take(64 * kMiB, 64 * kMiB), RegionKind::kPinned, 64 * kMiB));
}

TEST_CASE_METHOD(Unlooked, "what is pinned before the limits are known stays pinned") {
  fake::machine().cgroup = kMiB;
  boot();
  CHECK(is(take(kMiB, kMiB), RegionKind::kPinned, kMiB));
  CHECK(is(take(kMiB, kMiB), RegionKind::kPinned, kMiB));
  (void)take(kMiB, kMiB);
  CHECK(budget.memory().total() == kMiB);
  CHECK(budget.charges().pinned() == 2 * kMiB);
  CHECK(budget.pin_limit().bytes() == 2 * kMiB);
}

TEST_CASE_METHOD(Fixture, "a heap that grows by small steps checks what is available once a MiB") {
  boot();
  (void)take(8 * kMiB, 8 * kMiB);
  const auto read = [] { return fake::machine().looks; };
  const auto before = read();
  for (int i = 0; i < 16; ++i) CHECK(take(128 * kKiB, 128 * kKiB).kind == RegionKind::kPinned);
  CHECK(read() - before == 2);
  SECTION("large steps are all checked") {
    const auto checked = read();
    for (int i = 0; i < 4; ++i) (void)take(2 * kMiB, 2 * kMiB);
    CHECK(read() - checked == 4);
  }
  SECTION("what was granted and not used need not be checked again") {
    (void)ask(kMiB, kMiB);
    const auto checked = read();
    (void)ask(kMiB, kMiB);
    CHECK(read() == checked);
  }
  SECTION("where little is left, each step is") {
    (void)take(kMiB, kMiB);
    fake::machine().available = 16 * kGiB / 64 + 256 * kKiB;
    (void)take(2 * kMiB, 2 * kMiB);
    const auto checked = read();
    (void)take(128 * kKiB, 128 * kKiB);
    CHECK(read() - checked >= 1);
  }
}

}  // namespace rdmalloc
