// The real system calls, as far as any machine and any user can make them.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "allocator/os/copy_on_fork.h"
#include "allocator/os/environment.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "allocator/os/topology.h"
#include "tests/support/catch.h"

extern "C" char** environ;

namespace rdmalloc::os {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Reservation {
  explicit Reservation(size_t size) : bytes(size), base(reserve(size, kHugePageSize)) {
    REQUIRE(base != nullptr);
  }
  ~Reservation() { munmap(base, bytes); }
  char* at(size_t offset) const { return static_cast<char*>(base) + offset; }
  const size_t bytes;
  void* const base;
};

std::vector<std::string> environment(const char* prefix) {
  std::vector<std::string> entries;
  for_each_environment(
      prefix,
      [](void* all, Text entry) {
        static_cast<std::vector<std::string>*>(all)->emplace_back(entry.data, entry.size);
      },
      &entries);
  return entries;
}

// Nothing has this address: the call that maps it there succeeds and says so.
bool is_unmapped(void* address) {
  void* got =
      mmap(address, kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  munmap(got, kPageSize);
  return true;
}

[[maybe_unused]] void skip_for_memlock() {
  puts("SKIPPED: memlock: this user may not lock a page");
}

template <typename Action>
int status_of_child(Action action) {
  const pid_t child = fork();
  if (child == 0) _exit(action() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

// The answer is kept for the process: each asks in a child.
TEST_CASE("a kernel that calls itself old copies no pins, unless its RDMA drivers say so") {
  const bool is_old = GENERATE(false, true);
  const pid_t child = fork();
  if (child == 0) {
    if (is_old) personality(UNAME26);
    _exit(copies_pinned_at_fork() ? 1 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  // Of RDMA drivers that are there the truth is heard.
  const bool tells_truth = is_old && WEXITSTATUS(status) == 1;
  CHECK((tells_truth || WEXITSTATUS(status) == (is_old ? 0 : 1)));
}

TEST_CASE("a reservation is aligned and holds no memory") {
  const Reservation range(64 * kMiB);
  CHECK(reinterpret_cast<uintptr_t>(range.base) % kHugePageSize == 0);
  CHECK(reserve(SIZE_MAX - kPageSize, kHugePageSize) == nullptr);
  CHECK(reserve(size_t{1} << 50, kHugePageSize) == nullptr);
}

TEST_CASE("what is opened reads as zero, keeps what is written, and forgets it when closed") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, kMiB, PageKind::kBase)));
  REQUIRE(ok(populate(range.base, kMiB)));
  CHECK(range.at(kMiB - 1)[0] == 0);
  range.at(5)[0] = 'x';
  REQUIRE(ok(discard(range.base, kMiB)));
  CHECK(range.at(5)[0] == 0);
  range.at(5)[0] = 'x';
  close(range.base, kMiB);
  REQUIRE(ok(open(range.base, kMiB, PageKind::kBase)));
  CHECK(range.at(5)[0] == 0);
}

TEST_CASE("an exhausted hugetlb pool costs an error, and the reservation keeps its addresses") {
  const Reservation range(64 * kMiB);
  // No pool is larger than memory; where it is empty, one page is too many already. Not a terabyte:
  // the thread sanitizer leaves an address range in which that fits by chance only.
  const Reservation rather_many(total_memory() / kHugePageSize * kHugePageSize + kHugePageSize);
  CHECK_FALSE(ok(open(rather_many.base, rather_many.bytes, PageKind::kHugetlb)));
  CHECK_FALSE(is_unmapped(rather_many.base));
  if (!ok(open(range.base, kHugePageSize, PageKind::kHugetlb))) {
    CHECK_FALSE(is_unmapped(range.base));
    CHECK(ok(open(range.base, kHugePageSize, PageKind::kBase)));
  }
  range.at(0)[0] = 'x';
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these make mlock do nothing
TEST_CASE("locked memory is not discarded, and says so") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 64 * 1024, PageKind::kBase)));
  REQUIRE(ok(populate(range.base, 64 * 1024)));
  if (!ok(lock_on_fault(range.base, kPageSize))) return skip_for_memlock();
  range.at(5)[0] = 'x';
  CHECK_FALSE(ok(discard(range.base, kPageSize)));
  CHECK(range.at(5)[0] == 'x');
  unlock(range.base, kPageSize);
  CHECK(ok(discard(range.base, kPageSize)));
}
#endif

TEST_CASE("pages are moved with their bytes, and what they leave is reserved and holds nothing") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 8 * kPageSize, PageKind::kBase)));
  for (int page = 0; page < 8; ++page)
    range.at(page * kPageSize)[0] = static_cast<char>('a' + page);
  CHECK(resident_bytes(range.base, 4 * kMiB) == 8 * kPageSize);
  // From the middle, in two steps, behind one another.
  char* const to = range.at(kMiB);
  REQUIRE(ok(move(range.at(2 * kPageSize), 2 * kPageSize, to)));
  REQUIRE(ok(move(range.at(4 * kPageSize), kPageSize, to + 2 * kPageSize)));
  leave(range.at(2 * kPageSize), 3 * kPageSize);
  for (int page = 0; page < 3; ++page) CHECK(to[page * kPageSize] == 'c' + page);
  for (const int page : {0, 1, 5, 6, 7}) CHECK(range.at(page * kPageSize)[0] == 'a' + page);
  CHECK(resident_bytes(range.base, 4 * kMiB) == 8 * kPageSize);
  CHECK(resident_bytes(range.at(2 * kPageSize), 3 * kPageSize) == 0);
  for (const int page : {2, 3, 4}) {
    CHECK_FALSE(is_unmapped(range.at(page * kPageSize)));
    CHECK(status_of_child([&] {
            signal(SIGSEGV, SIG_DFL);
            *static_cast<volatile char*>(range.at(page * kPageSize)) = 'x';
            return true;
          }) != 0);
  }
  // On to addresses that were opened before, as those of a block are that must not be lost.
  REQUIRE(ok(open(range.at(2 * kMiB), kPageSize, PageKind::kBase)));
  REQUIRE(ok(move(to, kPageSize, range.at(2 * kMiB))));
  leave(to, kPageSize);
  CHECK(range.at(2 * kMiB)[0] == 'c');
}

TEST_CASE("populating leaves what is there, and touches nothing that was moved away") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 8 * kPageSize, PageKind::kBase)));
  for (int page = 0; page < 8; ++page)
    range.at(page * kPageSize)[0] = static_cast<char>('a' + page);
  REQUIRE(ok(populate(range.base, 8 * kPageSize)));
  REQUIRE(ok(move(range.at(4 * kPageSize), kPageSize, range.at(kMiB))));
  leave(range.at(4 * kPageSize), kPageSize);
  CHECK_FALSE(ok(populate(range.base, 8 * kPageSize)));
  for (const int page : {0, 1, 2, 3, 5, 6, 7}) CHECK(range.at(page * kPageSize)[0] == 'a' + page);
  CHECK(resident_bytes(range.base, 8 * kPageSize) == 7 * kPageSize);
}

TEST_CASE("what is more than one mapping is moved at once or refused, and nothing is lost") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 2 * kPageSize, PageKind::kBase)));
  REQUIRE(ok(open(range.at(kMiB), kPageSize, PageKind::kBase)));
  range.at(0)[0] = 'a';
  range.at(kPageSize)[0] = 'b';
  range.at(kMiB)[0] = 'c';
  REQUIRE(ok(move(range.at(kMiB), kPageSize, range.at(2 * kPageSize))));
  leave(range.at(kMiB), kPageSize);
  // Linux 6.17 moves several at once; any other refuses.
  if (!ok(move(range.base, 3 * kPageSize, range.at(2 * kMiB)))) {
    CHECK(range.at(0)[0] == 'a');
    CHECK(range.at(kPageSize)[0] == 'b');
    CHECK(range.at(2 * kPageSize)[0] == 'c');
    CHECK_FALSE(is_unmapped(range.at(2 * kMiB)));
    CHECK(ok(move(range.base, 2 * kPageSize, range.at(2 * kMiB))));
    CHECK(ok(move(range.at(2 * kPageSize), kPageSize, range.at(2 * kMiB + 2 * kPageSize))));
  }
  leave(range.base, 3 * kPageSize);
  for (int page = 0; page < 3; ++page) {
    CHECK(range.at(2 * kMiB + page * kPageSize)[0] == 'a' + page);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a lock is moved with its pages, and counted once") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 16 * kPageSize, PageKind::kBase)));
  const uint64_t before = locked_memory();
  if (!ok(lock_on_fault(range.base, 16 * kPageSize))) return skip_for_memlock();
  CHECK(locked_memory() == before + 16 * kPageSize);
  CHECK(resident_bytes(range.base, 16 * kPageSize) == 0);
  range.at(4 * kPageSize)[0] = 'x';
  const bool unlocks = !moves_locks();
  if (unlocks) unlock(range.at(4 * kPageSize), 4 * kPageSize);
  REQUIRE(ok(move(range.at(4 * kPageSize), 4 * kPageSize, range.at(kMiB))));
  leave(range.at(4 * kPageSize), 4 * kPageSize);
  if (unlocks) REQUIRE(ok(lock_on_fault(range.at(kMiB), 4 * kPageSize)));
  CHECK(locked_memory() == before + 16 * kPageSize);
  CHECK_FALSE(ok(discard(range.at(kMiB), kPageSize)));
  CHECK(range.at(kMiB)[0] == 'x');
  // Nor is it taken off what lies beside them.
  range.at(0)[0] = 'y';
  CHECK_FALSE(ok(discard(range.base, kPageSize)));
  CHECK_FALSE(ok(discard(range.at(15 * kPageSize), kPageSize)));
  CHECK(range.at(0)[0] == 'y');
  munmap(range.base, 4 * kMiB);
  CHECK(locked_memory() == before);
}
#endif

TEST_CASE("locking above the limit is a matter of budget") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, kMiB, PageKind::kBase)));
  const LockLimit limit = lock_limit();
  const Status locked = lock_on_fault(range.base, kMiB);
  if (limit.effective() >= 2 * kMiB) CHECK(ok(locked));
  if (limit.effective() < kMiB) CHECK(locked == Status::kOutOfBudget);
}

TEST_CASE("sealed memory cannot be unmapped") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, kMiB, PageKind::kBase)));
  CHECK(status_of_child([&range] {
          if (!ok(seal(range.base, kMiB))) return true;  // before Linux 6.10
          return munmap(range.base, kMiB) != 0 && errno == EPERM;
        }) == 0);
}

TEST_CASE("no call changes errno, whatever happens inside") {
  const Reservation range(4 * kMiB);
  errno = 4711;
  CHECK(reserve(size_t{1} << 50, kPageSize) == nullptr);
  CHECK(ok(open(range.base, kMiB, PageKind::kBase)));
  (void)open(range.base, size_t{1} << 40, PageKind::kHugetlb);
  CHECK(ok(populate(range.base, kMiB)));
  (void)lock_on_fault(range.base, kPageSize);
  (void)seal(static_cast<char*>(range.base) + 1, kPageSize);
  (void)prefer_node(range.base, kMiB, 63);
  visit_transparent_huge(
      range.base, kMiB, [](void*, uintptr_t, size_t) {}, nullptr);
  CHECK(errno == 4711);
  (void)lock_limit();
  (void)address_space_left();
  (void)total_memory();
  (void)memory_left();
  (void)cgroup();
  (void)total_swap();
  (void)current_node();
  (void)has_several_nodes();
  CHECK(errno == 4711);
}

TEST_CASE("the machine's numbers are plausible") {
  CHECK(total_memory() >= 16 * kMiB);
  CHECK(memory_left().to_populate <= total_memory());
  CHECK(memory_left().to_populate <= memory_left().to_touch);
  CHECK(cgroup().limit <= cgroup().max);
  CHECK(lock_limit().soft <= lock_limit().hard);
  CHECK(current_node() >= 0);
  CHECK(current_node() < kMaxNodes);
}

TEST_CASE("the address space left shrinks with what is mapped") {
  CHECK(address_space_left() == kNoLimit);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(status_of_child([] {
          const rlimit limit{size_t{4} << 30, RLIM_INFINITY};
          setrlimit(RLIMIT_AS, &limit);
          const uint64_t before = address_space_left();
          if (reserve(64 * kMiB, kPageSize) == nullptr) return false;
          const uint64_t after = address_space_left();
          return before < limit.rlim_cur && after <= before - 64 * kMiB;
        }) == 0);
#endif
}

TEST_CASE("the environment is read from environ by prefix") {
  setenv("RDMALLOC_UNIT_TEST", "1=2", 1);
  CHECK(environment("RDMALLOC_UNIT_") == std::vector<std::string>{"RDMALLOC_UNIT_TEST=1=2"});
  CHECK(environment("RDMALLOC_NOTHING_").empty());
  unsetenv("RDMALLOC_UNIT_TEST");
}

TEST_CASE("before libc has set environ the environment is read from the kernel") {
  // What execve was given; setenv does not change it. PATH is in every environment that runs tests.
  const std::vector<std::string> from_libc = environment("PATH=");
  char** const saved = environ;
  environ = nullptr;
  const std::vector<std::string> from_kernel = environment("PATH=");
  const std::vector<std::string> everything = environment("");
  environ = saved;
  CHECK(from_kernel == from_libc);
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  CHECK(everything.size() <= count + 1);
}

}  // namespace rdmalloc::os
