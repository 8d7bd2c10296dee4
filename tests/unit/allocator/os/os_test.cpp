// The real system calls, as far as every machine and user allows them.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "allocator/os/copy_on_fork.h"
#include "allocator/os/environment.h"
#include "allocator/os/file.h"
#include "allocator/os/limits.h"
#include "allocator/os/memory.h"
#include "allocator/os/topology.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/kernel_abilities.h"

extern "C" char** environ;

namespace rdmalloc::os {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

size_t largest_page() {
  return std::max(page_size_of(PageKind::kTransparentHuge), page_size_of(PageKind::kHugetlb));
}

struct Reservation {
  explicit Reservation(size_t size) : bytes(size), base(reserve(size, largest_page())) {
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

// Whether nothing is mapped at this address: mapping there then succeeds.
bool is_unmapped(void* address) {
  void* got = mmap(address, page_size(), PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  munmap(got, page_size());
  return true;
}

// Another mapping, where nothing is.
char* map_at(void* address) {
  return static_cast<char*>(mmap(address, page_size(), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
}

size_t page_table_bytes() {
  uint64_t kib = 0;
  for_each_line("/proc/self/status", [&](Text line) { return !parse_field(line, "VmPTE:", &kib); });
  return kib << 10;
}

[[maybe_unused]] void skip_for_memlock() {
  puts("SKIPPED: memlock: this user may not lock a page");
}

bool can_tell_what_is_mapped() {
  const test::Page page(PROT_READ);
  return test::has(!is_unmapped(page.base), "keep what is mapped (MAP_FIXED_NOREPLACE)");
}
bool can_tell_what_is_there() {
  const test::Page page(PROT_READ | PROT_WRITE);
  page.base[0] = 'x';
  unsigned char is_there = 0;
  return test::has(mincore(page.base, page_size(), &is_there) == 0 && (is_there & 1) != 0,
                   "tell what pages there are (mincore)");
}
bool can_lock_on_fault() {
  const test::Page page(PROT_READ | PROT_WRITE);
  const bool is_absent =
      syscall(SYS_mlock2, page.base, page_size(), MLOCK_ONFAULT) != 0 && errno == ENOSYS;
  return test::has(!is_absent, "lock on fault (mlock2)");
}
bool can_limit_addresses() {
  const rlimit wanted{size_t{4} << 30, RLIM_INFINITY};
  rlimit is{};
  setrlimit(RLIMIT_AS, &wanted);
  return getrlimit(RLIMIT_AS, &is) == 0 && is.rlim_cur == wanted.rlim_cur;
}

}  // namespace

// The answer is cached per process, so each case asks in a child.
TEST_CASE("a kernel that calls itself old copies no pins, unless its RDMA drivers say so") {
  const bool is_old = GENERATE(false, true);
  const test::ChildEnd end = test::run_child([is_old] {
    if (is_old) personality(UNAME26);
    return copies_pinned_at_fork() ? 1 : 0;
  });
  REQUIRE((end.status() == 0 || end.status() == 1));
  // If RDMA drivers are present, their answer counts.
  CHECK((end.status() == 1 || is_old));
}

TEST_CASE("a reservation is aligned and holds no memory") {
  const Reservation range(64 * kMiB);
  CHECK(reinterpret_cast<uintptr_t>(range.base) % largest_page() == 0);
  CHECK(reserve(SIZE_MAX - page_size(), largest_page()) == nullptr);
  CHECK(reserve(size_t{1} << 50, largest_page()) == nullptr);
}

TEST_CASE("huge pages have the sizes that the kernel tells") {
  size_t told = 0;
  if (std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> told) {
    CHECK(page_size_of(PageKind::kTransparentHuge) == told);
  }
  const size_t pool = page_size_of(PageKind::kHugetlb);
  CHECK(pool % page_size() == 0);
  CHECK(page_size_of(PageKind::kBase) == page_size());
  for (size_t size = next_hugetlb_page_size(0); size != 0; size = next_hugetlb_page_size(size)) {
    const std::string folder =
        "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(size >> 10) + "kB";
    CHECK(access(folder.c_str(), F_OK) == 0);
    // The default one, or the largest that is not too large.
    CHECK((pool == default_hugetlb_page_size() || size <= pool || size > kLargestHugetlb));
  }
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

TEST_CASE("a table reads as before without its pages of zeros, and has all others") {
  if (!can_tell_what_is_there()) return;
  constexpr size_t kPages = 8;
  auto* const table = static_cast<char*>(map_table(kPages * page_size()));
  REQUIRE(table != nullptr);
  const auto at = [&](size_t page) { return table + page * page_size(); };
  for (size_t page = 0; page < kPages; ++page) at(page)[0] = 'x';
  for (const size_t page : {1, 2, 4, 6}) at(page)[0] = 0;
  at(3)[0] = 0;
  at(4)[-1] = 'y';
  // From one within its page to another: not the last zeros.
  drop_zeros(at(1) + 17, at(5) + 1);
  for (const size_t page : {0, 3, 5, 6, 7}) CHECK(resident_bytes(at(page), page_size()) != 0);
  for (const size_t page : {1, 2, 4}) CHECK(resident_bytes(at(page), page_size()) == 0);
  CHECK(at(4)[-1] == 'y');
  for (const size_t page : {1, 2, 3, 4}) CHECK(at(page)[0] == 0);
  for (const size_t page : {0, 5, 7}) CHECK(at(page)[0] == 'x');
}

TEST_CASE("an exhausted hugetlb pool costs an error, and the reservation keeps its addresses") {
  if (!can_tell_what_is_mapped()) return;
  const Reservation range(64 * kMiB);
  // No pool is larger than memory; in an empty one a single page is already too many. Less than a
  // terabyte, for which the thread sanitizer's address range may have no room.
  const size_t page = page_size_of(PageKind::kHugetlb);
  const Reservation rather_many(align_down(total_memory(), page) + page);
  CHECK_FALSE(ok(open(rather_many.base, rather_many.bytes, PageKind::kHugetlb)));
  CHECK_FALSE(is_unmapped(rather_many.base));
  if (!ok(open(range.base, page, PageKind::kHugetlb))) {
    CHECK_FALSE(is_unmapped(range.base));
    CHECK(ok(open(range.base, page, PageKind::kBase)));
  }
  range.at(0)[0] = 'x';
}

#ifndef RDM_SANITIZED  // these make mlock a no-op
TEST_CASE("locked memory is not discarded, and says so") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 64 * 1024, PageKind::kBase)));
  REQUIRE(ok(populate(range.base, 64 * 1024)));
  if (!ok(lock_on_fault(range.base, page_size()))) return skip_for_memlock();
  range.at(5)[0] = 'x';
  CHECK_FALSE(ok(discard(range.base, page_size())));
  CHECK(range.at(5)[0] == 'x');
  unlock(range.base, page_size());
  CHECK(ok(discard(range.base, page_size())));
}
#endif

TEST_CASE("pages are moved with their bytes, and what they leave is reserved and holds nothing") {
  if (!can_tell_what_is_there() || !can_tell_what_is_mapped()) return;
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 8 * page_size(), PageKind::kBase)));
  for (int page = 0; page < 8; ++page)
    range.at(page * page_size())[0] = static_cast<char>('a' + page);
  CHECK(resident_bytes(range.base, 4 * kMiB) == 8 * page_size());
  // From the middle, in two adjacent steps.
  char* const to = range.at(kMiB);
  REQUIRE(ok(move(range.at(2 * page_size()), 2 * page_size(), to)));
  REQUIRE(ok(move(range.at(4 * page_size()), page_size(), to + 2 * page_size())));
  leave(range.at(2 * page_size()), 3 * page_size());
  for (int page = 0; page < 3; ++page) CHECK(to[page * page_size()] == 'c' + page);
  for (const int page : {0, 1, 5, 6, 7}) CHECK(range.at(page * page_size())[0] == 'a' + page);
  CHECK(resident_bytes(range.base, 4 * kMiB) == 8 * page_size());
  CHECK(resident_bytes(range.at(2 * page_size()), 3 * page_size()) == 0);
  for (const int page : {2, 3, 4}) {
    CHECK_FALSE(is_unmapped(range.at(page * page_size())));
    CHECK(test::crashes([&] { *static_cast<volatile char*>(range.at(page * page_size())) = 'x'; }));
  }
  // Now to addresses opened before, like those of a block that must not be lost.
  REQUIRE(ok(open(range.at(2 * kMiB), page_size(), PageKind::kBase)));
  REQUIRE(ok(move(to, page_size(), range.at(2 * kMiB))));
  leave(to, page_size());
  CHECK(range.at(2 * kMiB)[0] == 'c');
}

TEST_CASE("page tables of pages that left one by one are freed when asked for") {
  if (!can_tell_what_is_mapped()) return;
  const size_t table = page_table_reach();
  constexpr size_t kTables = 16;
  const Reservation range((kTables + 1) * table);
  char* const first =
      reinterpret_cast<char*>(align_up(reinterpret_cast<uintptr_t>(range.base), table));
  const size_t before = page_table_bytes();
  for (size_t i = 0; i < kTables; ++i) {
    REQUIRE(ok(open(first + i * table, 2 * page_size(), PageKind::kBase)));
    for (size_t page = 0; page < 2; ++page) first[i * table + page * page_size()] = 'x';
  }
  for (size_t i = 0; i < kTables; ++i) {
    for (size_t page = 0; page < 2; ++page) {
      REQUIRE(give_up(first + i * table + page * page_size(), page_size()));
    }
  }
  const size_t left = page_table_bytes() - before;
  if (!test::has(left >= kTables * page_size(), "keep the page tables, or tell of them (VmPTE)"))
    return;
  drop_page_tables(first, table);
  CHECK(page_table_bytes() - before <= left - page_size());
  drop_page_tables(first + table, (kTables - 1) * table);
  CHECK(page_table_bytes() - before <= left - kTables * page_size());
  CHECK_FALSE(is_unmapped(first));
  REQUIRE(ok(open(first, page_size(), PageKind::kBase)));
  CHECK(first[0] == 0);
}

TEST_CASE("a renewed part of a table reads as zero, and its page tables are freed") {
  const size_t reach = page_table_reach();
  constexpr size_t kTables = 16;
  auto* const table = static_cast<char*>(reserve_table((kTables + 1) * reach, true));
  REQUIRE(table != nullptr);
  REQUIRE(open_table(table, (kTables + 1) * reach));
  char* const first = reinterpret_cast<char*>(align_up(reinterpret_cast<uintptr_t>(table), reach));
  const size_t before = page_table_bytes();
  for (size_t i = 0; i < kTables; ++i) first[i * reach] = 'x';
  const size_t used = page_table_bytes() - before;
  renew_table(first, (kTables - 1) * reach);
  for (size_t i = 0; i < kTables; ++i) CHECK(first[i * reach] == (i == kTables - 1 ? 'x' : 0));
  first[0] = 'y';
  CHECK(first[0] == 'y');
  if (!test::has(used >= kTables * page_size(), "tell of page tables (VmPTE)")) return;
  renew_table(first, kTables * reach);
  CHECK(page_table_bytes() - before <= used - kTables * page_size());
}

TEST_CASE("what another mapping took of a reservation stays its own") {
  if (!can_tell_what_is_mapped()) return;
  CHECK(test::run_child([] {
          const size_t table = page_table_reach();
          char* const first = static_cast<char*>(reserve(2 * table, table, kMiB));
          if (!moves_locks()) return true;  // no hole ever
          if (!ok(open(first, page_size(), PageKind::kBase))) return false;
          first[0] = 'x';
          if (!ok(move(first, page_size(), first + table))) return false;
          char* const taken = map_at(first);
          if (taken != first) return false;
          taken[0] = 'y';
          leave(first, page_size());
          drop_page_tables(first, table);
          return taken[0] == 'y' && first[table] == 'x';
        }).exited_well());
}

TEST_CASE("populating leaves what is there, and touches nothing that was moved away") {
  if (!can_tell_what_is_there() || !test::can_populate()) return;
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 8 * page_size(), PageKind::kBase)));
  for (int page = 0; page < 8; ++page)
    range.at(page * page_size())[0] = static_cast<char>('a' + page);
  REQUIRE(ok(populate(range.base, 8 * page_size())));
  REQUIRE(ok(move(range.at(4 * page_size()), page_size(), range.at(kMiB))));
  leave(range.at(4 * page_size()), page_size());
  CHECK_FALSE(ok(populate(range.base, 8 * page_size())));
  for (const int page : {0, 1, 2, 3, 5, 6, 7}) CHECK(range.at(page * page_size())[0] == 'a' + page);
  CHECK(resident_bytes(range.base, 8 * page_size()) == 7 * page_size());
}

TEST_CASE("what is more than one mapping is moved at once or refused, and nothing is lost") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 2 * page_size(), PageKind::kBase)));
  REQUIRE(ok(open(range.at(kMiB), page_size(), PageKind::kBase)));
  range.at(0)[0] = 'a';
  range.at(page_size())[0] = 'b';
  range.at(kMiB)[0] = 'c';
  REQUIRE(ok(move(range.at(kMiB), page_size(), range.at(2 * page_size()))));
  leave(range.at(kMiB), page_size());
  // The kernel may have made one of them.
  if (!ok(move(range.base, 3 * page_size(), range.at(2 * kMiB)))) {
    CHECK(range.at(0)[0] == 'a');
    CHECK(range.at(page_size())[0] == 'b');
    CHECK(range.at(2 * page_size())[0] == 'c');
    if (can_tell_what_is_mapped()) CHECK_FALSE(is_unmapped(range.at(2 * kMiB)));
    CHECK(ok(move(range.base, 2 * page_size(), range.at(2 * kMiB))));
    CHECK(ok(move(range.at(2 * page_size()), page_size(), range.at(2 * kMiB + 2 * page_size()))));
  }
  leave(range.base, 3 * page_size());
  for (int page = 0; page < 3; ++page) {
    CHECK(range.at(2 * kMiB + page * page_size())[0] == 'a' + page);
  }
}

// Linux 6.17 moves one mapping after the other, and stops at the first that it refuses.
TEST_CASE("where one of two mappings cannot be moved, neither is") {
  for (const size_t beside : {size_t{0}, kMiB}) {
    CHECK(test::run_child([beside] {
            auto* const first = static_cast<char*>(reserve(4 * kMiB, page_size(), beside));
            if (!ok(open(first, 2 * page_size(), PageKind::kBase))) return false;
            first[0] = 'a';
            first[page_size()] = 'b';
            if (!ok(seal(first + page_size(), page_size()))) return true;  // before Linux 6.10
            if (ok(move(first, 2 * page_size(), first + 2 * kMiB))) return false;
            return first[0] == 'a' && first[page_size()] == 'b';
          }).exited_well());
  }
}

#ifndef RDM_SANITIZED
TEST_CASE("a lock is moved with its pages, and counted once") {
  const Reservation range(4 * kMiB);
  REQUIRE(ok(open(range.base, 16 * page_size(), PageKind::kBase)));
  const uint64_t before = locked_memory();
  if (!ok(lock_on_fault(range.base, 16 * page_size()))) return skip_for_memlock();
  CHECK(locked_memory() == before + 16 * page_size());
  CHECK(resident_bytes(range.base, 16 * page_size()) == 0);
  range.at(4 * page_size())[0] = 'x';
  const bool unlocks = !moves_locks();
  if (unlocks) unlock(range.at(4 * page_size()), 4 * page_size());
  REQUIRE(ok(move(range.at(4 * page_size()), 4 * page_size(), range.at(kMiB))));
  leave(range.at(4 * page_size()), 4 * page_size());
  if (unlocks) REQUIRE(ok(lock_on_fault(range.at(kMiB), 4 * page_size())));
  CHECK(locked_memory() == before + 16 * page_size());
  CHECK_FALSE(ok(discard(range.at(kMiB), page_size())));
  CHECK(range.at(kMiB)[0] == 'x');
  // Neighbouring pages keep their locks too.
  range.at(0)[0] = 'y';
  CHECK_FALSE(ok(discard(range.base, page_size())));
  CHECK_FALSE(ok(discard(range.at(15 * page_size()), page_size())));
  CHECK(range.at(0)[0] == 'y');
  munmap(range.base, 4 * kMiB);
  CHECK(locked_memory() == before);
}
#endif

TEST_CASE("locking above the limit is a matter of budget") {
  if (!can_lock_on_fault()) return;
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
  CHECK(test::run_child([&range] {
          if (!ok(seal(range.base, kMiB))) return true;  // refused before Linux 6.10
          return munmap(range.base, kMiB) != 0 && errno == EPERM;
        }).exited_well());
}

TEST_CASE("no call changes errno, whatever happens inside") {
  const Reservation range(4 * kMiB);
  errno = 4711;
  CHECK(reserve(size_t{1} << 50, page_size()) == nullptr);
  CHECK(ok(open(range.base, kMiB, PageKind::kBase)));
  (void)open(range.base, size_t{1} << 40, PageKind::kHugetlb);
  CHECK(ok(populate(range.base, kMiB)));
  (void)lock_on_fault(range.base, page_size());
  drop_page_tables(range.at(2 * kMiB), kMiB);
  void* const table = reserve_table(kMiB, false);
  renew_table(table, kMiB);
  (void)seal(static_cast<char*>(range.base) + 1, page_size());
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
  rlimit own{};
  getrlimit(RLIMIT_AS, &own);
  if (own.rlim_cur == RLIM_INFINITY) CHECK(address_space_left() == kNoLimit);
  const bool is_able = test::run_child([] { return can_limit_addresses(); }).exited_well();
  if (!test::has(is_able, "limit addresses (RLIMIT_AS)")) return;
#ifndef RDM_SANITIZED
  CHECK(test::run_child([] {
          const rlimit limit{size_t{64} << 30, RLIM_INFINITY};
          setrlimit(RLIMIT_AS, &limit);
          const uint64_t before = address_space_left();
          if (reserve(64 * kMiB, page_size()) == nullptr) return false;
          const uint64_t after = address_space_left();
          return before < limit.rlim_cur && after <= before - 64 * kMiB;
        }).exited_well());
#endif
}

TEST_CASE("the environment is read from environ by prefix") {
  setenv("RDMALLOC_UNIT_TEST", "1=2", 1);
  CHECK(environment("RDMALLOC_UNIT_") == std::vector<std::string>{"RDMALLOC_UNIT_TEST=1=2"});
  CHECK(environment("RDMALLOC_NOTHING_").empty());
  unsetenv("RDMALLOC_UNIT_TEST");
}

TEST_CASE("before libc has set environ the environment is read from the kernel") {
  // What execve received; setenv does not change it. Every test environment has PATH.
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
