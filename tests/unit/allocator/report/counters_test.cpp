#include "allocator/report/counters.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "allocator/os/shared_page.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {

using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

namespace {

constexpr int kNumber = 100;

const PhaseRecord& phase(const CounterPage& page, size_t index) { return page.phases[index]; }

std::string link_of(int fd) {
  char target[256];
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  return length < 0 ? "" : std::string(target, static_cast<size_t>(length));
}

void close_page(const os::SharedPage& page) {
  munmap(page.address, os::page_size());
  close(page.descriptor);
}

// As rdm_phase() does.
void begin_phase(Heap& tested, const char* name) {
  tested.look_at_limits();
  tested.books().begin_phase(name);
}

}  // namespace

TEST_CASE("the page follows the heap") {
  TestHeap tested({"CAP=4M"});
  tested.boot();
  const CounterPage& page = tested->books().page();
  void* const one = tested.take(kMiB);
  void* const two = tested.take(8 * kMiB);
  CHECK(page.live == 9 * kMiB);
  CHECK(page.held == tested->budget().charges().held());
  CHECK(page.pinned == tested->budget().charges().pinned());
  CHECK(page.overflow == tested->budget().charges().overflow());
  CHECK(page.overflow > 0);
  CHECK(page.budget == 4 * kMiB);
  CHECK(page.regions == tested->regions().size());
  REQUIRE(tested.give(two, 8 * kMiB));
  REQUIRE(tested.give(one, kMiB));
  CHECK(page.live == 0);
  CHECK(page.peak_live == 9 * kMiB);
}

TEST_CASE("a phase has the peaks of its own time, and goes on when it is entered again") {
  TestHeap tested;
  tested.boot();
  const CounterPage& page = tested->books().page();
  void* const before = tested.take(kMiB);
  begin_phase(*tested, "small");
  begin_phase(*tested, "large");
  void* const block = tested.take(16 * kMiB);
  REQUIRE(tested.give(block, 16 * kMiB));
  begin_phase(*tested, "small");
  REQUIRE(tested.give(tested.take(2 * kMiB), 2 * kMiB));
  begin_phase(*tested, nullptr);
  REQUIRE(tested.give(tested.take(64 * kMiB), 64 * kMiB));
  REQUIRE(tested.give(before, kMiB));

  REQUIRE(page.phase_count == 2);
  CHECK(page.phase_now == CounterPage::kNoPhase);
  CHECK(std::string(phase(page, 0).name) == "small");
  CHECK(phase(page, 0).entered == 2);
  CHECK(phase(page, 0).peak_live == 3 * kMiB);
  CHECK(phase(page, 0).ns > 0);
  CHECK(phase(page, 1).entered == 1);
  CHECK(phase(page, 1).peak_live == 17 * kMiB);
  CHECK(phase(page, 1).peak_held >= 17 * kMiB);
  CHECK(phase(page, 1).peak_pinned == phase(page, 1).peak_held);
}

TEST_CASE("the phases beyond the last one with room are counted as one") {
  TestHeap tested;
  tested.boot();
  const CounterPage& page = tested->books().page();
  for (size_t i = 0; i < 2 * CounterPage::kMostPhases; ++i) {
    begin_phase(*tested, ("phase " + std::to_string(i)).c_str());
  }
  CHECK(page.phase_count == CounterPage::kMostPhases);
  const PhaseRecord& last = phase(page, CounterPage::kMostPhases - 1);
  CHECK(std::string(last.name) == "(others)");
  CHECK(last.entered == CounterPage::kMostPhases + 1);
}

TEST_CASE("a long name of a phase is cut, and known again") {
  TestHeap tested;
  tested.boot();
  const std::string name(PhaseRecord::kLongestName + 60, 'x');
  begin_phase(*tested, name.c_str());
  begin_phase(*tested, name.c_str());
  const CounterPage& page = tested->books().page();
  CHECK(page.phase_count == 1);
  CHECK(strlen(phase(page, 0).name) == PhaseRecord::kLongestName);
}

TEST_CASE("threads may begin phases while others allocate") {
  TestHeap tested;
  tested.boot();
  std::thread beginner([&tested] {
    for (int i = 0; i < 1000; ++i) begin_phase(*tested, i % 2 == 0 ? "even" : "odd");
  });
  for (int i = 0; i < 1000; ++i) {
    bool zero = false;
    void* const taken = tested->extents().allocate(nullptr, kPage, kPage, &zero);
    REQUIRE(tested->extents().release(taken, kPage));
  }
  beginner.join();
  CHECK(tested->books().page().phase_count == 2);
}

TEST_CASE("a shared page can be read by its descriptor, and neither written to nor cut short") {
  os::SharedPage page;
  REQUIRE(ok(os::share_page("rdmalloc-test", kNumber, &page)));
  CHECK(page.descriptor >= kNumber);
  CHECK(link_of(page.descriptor) == "/memfd:rdmalloc-test (deleted)");
  CHECK((fcntl(page.descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  memcpy(page.address, "figures", 8);
  char seen[8];
  REQUIRE(pread(page.descriptor, seen, sizeof seen, 0) == sizeof seen);
  CHECK(std::string(seen) == "figures");
  CHECK(pwrite(page.descriptor, "x", 1, 0) == -1);
  CHECK(ftruncate(page.descriptor, 0) == -1);
  CHECK(mmap(nullptr, os::page_size(), PROT_WRITE, MAP_SHARED, page.descriptor, 0) == MAP_FAILED);
  close_page(page);
}

TEST_CASE("below the usual number of a descriptor the highest that is allowed is taken") {
  CHECK(test::run_child([] {
          const rlimit few = {40, 40};
          os::SharedPage page;
          if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
          if (!ok(os::share_page("rdmalloc-test", kNumber, &page))) return 2;
          return page.descriptor == 39 ? 0 : 3;
        }).status() == 0);
}

TEST_CASE("with no descriptor left nothing is shared, and nothing stays open") {
  CHECK(test::run_child([] {
          const rlimit none = {0, 0};
          os::SharedPage page;
          if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
          if (ok(os::share_page("rdmalloc-test", kNumber, &page))) return 2;
          return page.address == nullptr ? 0 : 3;
        }).status() == 0);
}

TEST_CASE("a forked child has a page of its own, and its parent's says nothing of it") {
  Counters counters;
  counters.share();
  counters.note_live(100);
  counters.begin_phase("parent's");
  CHECK(test::run_child([&counters] {
          counters.note_fork_child();
          const CounterPage& page = counters.page();
          if (page.live != 100 || page.forked != 1 || page.phase_count != 0) return 1;
          if (page.process != static_cast<uint64_t>(getpid())) return 2;
          counters.note_live(1000);
          counters.begin_phase("child's");
          return 0;
        }).status() == 0);
  CHECK(counters.page().peak_live == 100);
  CHECK(counters.page().phase_count == 1);
  CHECK(counters.page().process == static_cast<uint64_t>(getpid()));
}

TEST_CASE("control: a child that keeps its parent's page writes to it") {
  Counters counters;
  counters.share();
  CHECK(test::run_child([&counters] {
          counters.note_live(1000);
          return 0;
        }).status() == 0);
  CHECK(counters.page().peak_live == 1000);
}

TEST_CASE("what the program put in place of the page's descriptor stays open in a child") {
  os::SharedPage page;
  REQUIRE(ok(os::share_page("rdmalloc-test", kNumber, &page)));
  const int other = open("/dev/null", O_RDONLY);
  REQUIRE(dup2(other, page.descriptor) == page.descriptor);
  CHECK(test::run_child([page] {
          os::SharedPage own = page;
          if (!ok(os::replace_page("rdmalloc-test", kNumber, &own))) return 1;
          if (link_of(page.descriptor) != "/dev/null") return 2;
          return own.descriptor != page.descriptor && own.address == page.address ? 0 : 3;
        }).status() == 0);
  close(other);
  close_page(page);
}

TEST_CASE("a child that can have no page leaves its parent's alone") {
  Counters counters;
  counters.share();
  CHECK(test::run_child([&counters] {
          const rlimit none = {0, 0};
          if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
          counters.note_fork_child();
          counters.note_live(1000);
          return counters.page().live == 1000 ? 0 : 2;
        }).status() == 0);
  CHECK(counters.page().peak_live == 0);
}

}  // namespace rdmalloc
