#include "allocator/os/memory.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory_calls.h"
#include "allocator/os/newer_headers.h"

namespace rdmalloc::os {
namespace {

// Kernels that do not know a call or a flag answer ENOSYS or EINVAL.
Status from_errno(int error) {
  switch (error) {
    case ENOMEM:
    case EAGAIN:
      return Status::kNoMemory;
    case ENOSYS:
    case EINVAL:
      return Status::kUnsupported;
    default:
      return Status::kRefused;
  }
}

constexpr size_t kSparseMetadata = size_t{2} << 20;
constexpr size_t kLargeMetadata = size_t{16} << 20;

// As mmap's flags name the size of hugetlb pages, whatever the default is.
int hugetlb_flags() { return MAP_HUGETLB | __builtin_ctzl(hugetlb_page_size()) << MAP_HUGE_SHIFT; }

// What map_metadata() returned, as far as there is room to record it.
struct Metadata {
  std::atomic<uintptr_t> base{0};
  std::atomic<size_t> bytes{0};
};
constexpr size_t kMostMetadata = 256;
constinit Metadata known_metadata[kMostMetadata];

void note_metadata(uintptr_t base, size_t bytes) {
  for (Metadata& one : known_metadata) {
    uintptr_t nothing = 0;
    if (!one.base.compare_exchange_strong(nothing, base, std::memory_order_relaxed)) continue;
    one.bytes.store(bytes, std::memory_order_relaxed);
    return;
  }
}

void forget_metadata(uintptr_t base) {
  for (Metadata& one : known_metadata) {
    if (one.base.load(std::memory_order_relaxed) != base) continue;
    one.bytes.store(0, std::memory_order_relaxed);
    one.base.store(0, std::memory_order_relaxed);
  }
}

void* map_noted(size_t bytes, int rights) {
  const KeepErrno keep;
  void* const got =
      mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  // Where huge pages come unasked, the first entry of a table would bring in a whole one.
  if (bytes >= kSparseMetadata) madvise(got, bytes, MADV_NOHUGEPAGE);
  // Tables with an entry for each page of the window are nearly empty; a debugger's core dump would
  // write all of them.
  if (bytes >= kLargeMetadata) madvise(got, bytes, MADV_DONTDUMP);
  note_metadata(reinterpret_cast<uintptr_t>(got), bytes);
  return got;
}

// What map_tables_ahead() mapped and nobody has yet.
constinit std::atomic<uintptr_t> ahead{0};
constinit std::atomic<uintptr_t> ahead_end{0};

void* take_ahead(size_t bytes) {
  const size_t whole = page_ceil(bytes);
  uintptr_t from = ahead.load(std::memory_order_acquire);
  while (ahead_end.load(std::memory_order_relaxed) - from >= whole && whole != 0) {
    if (ahead.compare_exchange_weak(from, from + whole, std::memory_order_acq_rel)) {
      return reinterpret_cast<void*>(from);
    }
  }
  return nullptr;
}

// See reserve(). Cleared once another mapping has taken such a hole.
std::atomic<bool> may_leave_holes{false};
// Set once a hole could not be reserved again.
std::atomic<bool> has_lost_hole{false};
// Whether the kernel knows MREMAP_DONTUNMAP (Linux 5.7): set by the first move that succeeds with
// it.
std::atomic<bool> keeps_mapped{false};

Status result(long returned) { return returned == 0 ? Status::kOk : from_errno(errno); }

// Replaces what is mapped there, in one step.
bool reserve_over(void* address, size_t bytes, int flags) {
  void* got =
      mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  if (got != address) return false;
  madvise(address, bytes, MADV_DONTDUMP);
  return true;
}

// Unmaps all but `bytes` of a mapping, from an aligned address on that leaves `beside` below it.
void* trim(void* raw, size_t mapped, size_t bytes, size_t beside, size_t alignment) {
  const auto start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = align_up(start + beside, alignment);
  if (aligned > start) munmap(raw, aligned - start);
  const uintptr_t tail = start + mapped - (aligned + bytes);
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  return reinterpret_cast<void*>(aligned);
}

// Below what is mapped here, where the kernel goes on mapping, and far from it: with one call in
// place of three, if nothing lies there. Null otherwise.
void* reserve_apart(size_t bytes, size_t alignment, size_t beside) {
  const auto here = reinterpret_cast<uintptr_t>(&may_leave_holes);
  if (here / 2 < bytes + 2 * beside) return nullptr;
  const uintptr_t wanted = align_down(here - beside - bytes, alignment);
  void* const got = mmap(reinterpret_cast<void*>(wanted), bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reinterpret_cast<uintptr_t>(got) == wanted) return got;
  if (got != MAP_FAILED) munmap(got, bytes);
  return nullptr;
}

void* reserve_anywhere(size_t bytes, size_t alignment, size_t beside) {
  const size_t padded = bytes + alignment - page_size() + 2 * beside;
  if (padded < bytes) return nullptr;
  void* raw = mmap(nullptr, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return raw == MAP_FAILED ? nullptr : trim(raw, padded, bytes, beside, alignment);
}

// False: the range is of several mappings, or has a hole. Then the kernel refuses to move it, or
// since Linux 6.17 moves one mapping after the other and may stop in between with an error.
//
// The range could grow by a page where it lies only if something behind it were unmapped. That it
// is not one mapping is the first thing that the kernel finds.
bool is_one_mapping(void* address, size_t bytes) {
  const size_t longer = bytes + page_size();
  if (mremap(address, bytes, longer, 0, nullptr) == MAP_FAILED) return errno != EFAULT;
  // The program had unmapped that page.
  (void)mremap(address, longer, bytes, 0, nullptr);
  return true;
}

}  // namespace

void* reserve(size_t bytes, size_t alignment, size_t beside) {
  const KeepErrno keep;
  void* got = nullptr;
  if (beside != 0) {
    got = reserve_apart(bytes, alignment, beside);
    if (got == nullptr) got = reserve_anywhere(bytes, alignment, beside);
    if (got != nullptr) may_leave_holes.store(true, std::memory_order_relaxed);
  }
  if (got == nullptr) got = reserve_anywhere(bytes, alignment, 0);
  if (got != nullptr) madvise(got, bytes, MADV_DONTDUMP);
  return got;
}

Status open(void* address, size_t bytes, PageKind kind) {
  const KeepErrno keep;
  if (kind == PageKind::kHugetlb) {
    // Without MAP_NORESERVE: a pool that is too small must fail here, not at the first touch. Not
    // with MAP_FIXED: if that failed, the reservation would already have lost the range.
    void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | hugetlb_flags(), -1, 0);
    if (got == MAP_FAILED) return from_errno(errno);
    if (mremap(got, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) == address) {
      return Status::kOk;
    }
    // hugetlb pages can be moved since Linux 5.16; before, the refusal may have taken the target
    // away.
    const Status refused = from_errno(errno);
    munmap(got, bytes);
    close(address, bytes);
    return refused;
  }
  const Status opened = result(mprotect(address, bytes, PROT_READ | PROT_WRITE));
  if (!ok(opened)) return opened;
  if (is_confined()) note_opened(bytes);
  madvise(address, bytes, MADV_DODUMP);
  if (kind == PageKind::kTransparentHuge) madvise(address, bytes, MADV_HUGEPAGE);
  return Status::kOk;
}

void close(void* address, size_t bytes) {
  const KeepErrno keep;
  if (is_confined()) note_closed(bytes);
  (void)reserve_over(address, bytes, MAP_FIXED);
}

bool moves_locks() { return may_leave_holes.load(std::memory_order_relaxed); }

Status move(void* from, size_t bytes, void* to) {
  const KeepErrno keep;
  if (bytes > page_size() && !is_one_mapping(from, bytes)) return Status::kRefused;
  constexpr int kMove = MREMAP_MAYMOVE | MREMAP_FIXED;
  const int kept = may_leave_holes.load(std::memory_order_relaxed) ? 0 : MREMAP_DONTUNMAP;
  if (mremap(from, bytes, bytes, kMove | kept, to) == to) {
    if (kept != 0) keeps_mapped.store(true, std::memory_order_relaxed);
    return Status::kOk;
  }
  // Before Linux 5.7 a move always leaves a hole.
  if (errno == EINVAL && kept != 0 && mremap(from, bytes, bytes, kMove, to) == to) {
    return Status::kOk;
  }
  const Status refused = errno == EINVAL ? Status::kRefused : from_errno(errno);
  // The refusal may have taken the target away.
  (void)reserve_over(to, bytes, MAP_FIXED_NOREPLACE);
  return refused;
}

void leave(void* address, size_t bytes) {
  const KeepErrno keep;
  if (reserve_over(address, bytes, MAP_FIXED_NOREPLACE)) return;
  // The hole is still there, or someone else has taken it.
  if (!may_leave_holes.exchange(false, std::memory_order_relaxed) &&
      keeps_mapped.load(std::memory_order_relaxed)) {
    (void)reserve_over(address, bytes, MAP_FIXED);
  } else {
    has_lost_hole.store(true, std::memory_order_relaxed);
  }
}

bool give_up(void* address, size_t bytes) {
  const KeepErrno keep;
  if (!reserve_over(address, bytes, MAP_FIXED)) return false;
  if (is_confined()) note_closed(bytes);
  return true;
}

void drop_page_tables(void* address, size_t bytes) {
  const KeepErrno keep;
  if (has_lost_hole.load(std::memory_order_relaxed)) return;
  (void)reserve_over(address, bytes, MAP_FIXED);
}

Status populate(void* address, size_t bytes) {
  const KeepErrno keep;
  const Status populated = result(madvise(address, bytes, MADV_POPULATE_WRITE));
  if (populated != Status::kUnsupported) return populated;
  // EINVAL: before Linux 5.14, or the range was moved away since the caller looked. Do not touch
  // the pages instead: other threads may own some of the range, and what was moved away has no
  // owner.
  return madvise(address, 0, MADV_POPULATE_WRITE) == 0 ? Status::kRefused : Status::kUnsupported;
}

void ask_for_base_pages(void* address, size_t bytes) {
  const KeepErrno keep;
  madvise(address, bytes, MADV_NOHUGEPAGE);
}

uint64_t page_faults() {
  const KeepErrno keep;
  if (is_confined()) return 0;
  rusage used{};
  if (getrusage(RUSAGE_THREAD, &used) != 0) return 0;
  return static_cast<uint64_t>(used.ru_minflt) + static_cast<uint64_t>(used.ru_majflt);
}

Status lock_on_fault(void* address, size_t bytes) {
  const KeepErrno keep;
  if (is_confined()) return Status::kRefused;
  if (mlock2(address, bytes, MLOCK_ONFAULT) == 0) return Status::kOk;
  return errno == ENOMEM || errno == EPERM || errno == EAGAIN ? Status::kOutOfBudget
                                                              : from_errno(errno);
}

Status lock_opened(void* address, size_t bytes, PageKind kind) {
  if (!is_confined()) return lock_on_fault(address, bytes);
  // The kernel neither swaps these nor counts them as locked.
  if (kind == PageKind::kHugetlb) return Status::kOk;
  const KeepErrno keep;
  const bool is_locked = lock_by_moving(address, bytes);
  if (kind == PageKind::kTransparentHuge) madvise(address, bytes, MADV_HUGEPAGE);
  return is_locked ? Status::kOk : Status::kOutOfBudget;
}

void note_fork_child() { forget_locked_page(); }

void unlock(void* address, size_t bytes) {
  const KeepErrno keep;
  if (is_confined()) return;
  munlock(address, bytes);
}

bool make_accessible(void* address, size_t bytes) {
  const KeepErrno keep;
  return mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

// msync fails where nothing is mapped, and otherwise has nothing to do here.
bool is_mapped(const void* address, size_t bytes) {
  if (is_confined()) return false;
  return system_call(SYS_msync, word(address), static_cast<long>(bytes), MS_ASYNC) == 0;
}

void reserve_hole(void* address, size_t bytes) {
  const KeepErrno keep;
  (void)reserve_over(address, bytes, MAP_FIXED_NOREPLACE);
}

// One system call per page, because a fault would hit the program.
void copy_readable(void* to, const void* from, size_t bytes) {
  if (is_confined()) {
    memset(to, 0, bytes);
    return;
  }
  for (size_t done = 0; done < bytes;) {
    char* const into = static_cast<char*>(to) + done;
    const char* const at = static_cast<const char*>(from) + done;
    const size_t rest = page_size() - reinterpret_cast<uintptr_t>(at) % page_size();
    const size_t step = bytes - done < rest ? bytes - done : rest;
    const iovec there{const_cast<char*>(at), step};
    const iovec here{into, step};
    const long copied =
        system_call(SYS_process_vm_readv, long{getpid()}, word(&here), 1, word(&there), 1, 0);
    if (copied != static_cast<long>(step)) memset(into, 0, step);
    done += step;
  }
}

Status seal(void* address, size_t bytes) {
  const KeepErrno keep;
  if (is_confined()) return Status::kUnsupported;
  return result(syscall(SYS_mseal, address, bytes, 0UL));
}

Status prefer_node(void* address, size_t bytes, int node) {
  const KeepErrno keep;
  if (is_confined()) return Status::kUnsupported;
  constexpr unsigned long kBits = 8 * sizeof(unsigned long);
  if (node < 0 || static_cast<unsigned long>(node) >= kBits) return Status::kInvalid;
  const unsigned long mask = 1UL << node;
  return result(syscall(SYS_mbind, address, bytes, MPOL_PREFERRED, &mask, kBits + 1, 0UL));
}

Status discard(void* address, size_t bytes) {
  const KeepErrno keep;
  return result(madvise(address, bytes, MADV_DONTNEED));
}

void drop_zeros(const void* from, const void* to) {
  using Word [[gnu::may_alias]] = uint64_t;
  const auto is_zero = [](uintptr_t page) {
    const auto* const words = reinterpret_cast<const Word*>(page);
    return std::all_of(words, words + page_size() / sizeof(Word), [](const Word& word) {
      return __atomic_load_n(&word, __ATOMIC_RELAXED) == 0;
    });
  };
  const uintptr_t end = page_ceil(reinterpret_cast<uintptr_t>(to));
  for (uintptr_t at = page_floor(reinterpret_cast<uintptr_t>(from)); at < end;) {
    const uintptr_t zeros = at;
    while (at < end && is_zero(at)) at += page_size();
    if (at != zeros) (void)discard(reinterpret_cast<void*>(zeros), at - zeros);
    if (at < end) at += page_size();
  }
}

Status inherit_on_fork(void* address, size_t bytes) {
  const KeepErrno keep;
  const uintptr_t from = page_floor(reinterpret_cast<uintptr_t>(address));
  const uintptr_t to = reinterpret_cast<uintptr_t>(address) + bytes;
  return result(madvise(reinterpret_cast<void*>(from), to - from, MADV_DOFORK));
}

void* map_metadata(size_t bytes) { return map_noted(bytes, PROT_READ | PROT_WRITE); }

void* reserve_table(size_t bytes, bool is_readable) {
  return map_noted(bytes, is_readable ? PROT_READ : PROT_NONE);
}

bool open_table(void* address, size_t bytes) {
  const KeepErrno keep;
  return mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

void renew_table(void* address, size_t bytes) {
  const KeepErrno keep;
  void* const got = mmap(address, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (got != address) return;
  madvise(got, bytes, MADV_NOHUGEPAGE);
  madvise(got, bytes, MADV_DONTDUMP);
}

void map_tables_ahead(size_t bytes) {
  const auto got = reinterpret_cast<uintptr_t>(map_metadata(bytes));
  if (got == 0) return;
  ahead_end.store(got + page_floor(bytes), std::memory_order_relaxed);
  ahead.store(got, std::memory_order_release);
}

void* map_table(size_t bytes) {
  void* const got = take_ahead(bytes);
  return got != nullptr ? got : map_metadata(bytes);
}

void* map_aligned(size_t bytes, size_t alignment) {
  const KeepErrno keep;
  const auto map = [](size_t size) {
    void* const got = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return got == MAP_FAILED ? nullptr : got;
  };
  // The kernel mostly gives large mappings an aligned address.
  void* const at_once = map(bytes);
  if (reinterpret_cast<uintptr_t>(at_once) % alignment == 0) return at_once;
  munmap(at_once, bytes);
  if (bytes + alignment < bytes) return nullptr;
  void* const raw = map(bytes + alignment);
  return raw == nullptr ? nullptr : trim(raw, bytes + alignment, bytes, 0, alignment);
}

void unmap_metadata(void* address, size_t bytes) {
  const KeepErrno keep;
  forget_metadata(reinterpret_cast<uintptr_t>(address));
  munmap(address, bytes);
}

bool find_metadata(uintptr_t at, uintptr_t* from, uintptr_t* to) {
  *from = UINTPTR_MAX;
  for (const Metadata& one : known_metadata) {
    const uintptr_t base = one.base.load(std::memory_order_relaxed);
    const uintptr_t end = base + page_ceil(one.bytes.load(std::memory_order_relaxed));
    if (base == 0 || end <= at || base >= *from) continue;
    *from = base > at ? base : at;
    *to = end;
  }
  return *from != UINTPTR_MAX;
}

size_t resident_bytes(const void* address, size_t bytes) {
  const KeepErrno keep;
  if (is_confined()) return 0;
  constexpr size_t kAtOnce = 256;  // pages
  unsigned char is_there[kAtOnce];
  size_t pages = 0;
  auto* at = static_cast<char*>(const_cast<void*>(address));
  for (size_t done = 0; done < bytes; done += kAtOnce * page_size()) {
    const size_t step = bytes - done < kAtOnce * page_size() ? bytes - done : kAtOnce * page_size();
    if (mincore(at + done, step, is_there) != 0) continue;
    for (size_t i = 0; i < step / page_size(); ++i) pages += is_there[i] & 1;
  }
  return pages * page_size();
}

void visit_transparent_huge(const void* address, size_t bytes, VisitHuge visit, void* context) {
  const KeepErrno keep;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  uint64_t start = 0;
  bool inside = false;
  for_each_line("/proc/self/smaps", [&](Text line) {
    uint64_t low = 0;
    uint64_t high = 0;
    if (parse_range(line, &low, &high)) {
      start = low;
      inside = start >= begin && start < begin + bytes;
    } else if (uint64_t kib = 0; inside && parse_field(line, "AnonHugePages:", &kib) && kib != 0) {
      visit(context, start, kib << 10);
    }
    return true;
  });
}

}  // namespace rdmalloc::os
