// The calls that unmap, move or drop memory, under libc's names. They are plain symbols: whoever
// calls them through the dynamic linker reaches ours first. Not seen: system calls made by inline
// assembly, calls inside libc (except those in interposed_threads.cpp), libraries loaded into
// another namespace, and files that are truncated or punched. Callers bound past us (RTLD_DEEPBIND,
// UCX_MEM_MMAP_HOOK_MODE=reloc) are detected: see interposed_bindings.h.
#include <errno.h>
#include <sys/shm.h>
#include <unistd.h>

#include "allocator/os/confinement.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/newer_headers.h"
#include "allocator/os/system_call.h"
#include "allocator/pages/heap.h"
#include "regcache/foreign/monitor/interposed.h"
#include "regcache/foreign/monitor/interposed_heap.h"
#include "regcache/foreign/monitor/interposed_ranges.h"

#define RDM_INTERPOSED extern "C" [[gnu::visibility("default")]]

extern "C" void* __sbrk(intptr_t increment) noexcept __attribute__((weak));  // glibc's own sbrk()

namespace rdmalloc::interposed {
namespace {

using os::libc_answer;
using os::system_call;
using os::word;

struct {
  Next<int(void*, size_t)> munmap{"munmap"};
  Next<void*(void*, size_t, size_t, int, ...)> mremap{"mremap"};
  Next<int(void*, size_t, int)> madvise{"madvise"};
  Next<ssize_t(int, const iovec*, size_t, int, unsigned)> process_madvise{"process_madvise"};
  Next<void*(void*, size_t, int, int, int, off_t)> mmap{"mmap"};
  Next<int(void*, size_t, int)> mprotect{"mprotect"};
  Next<int(void*, size_t, int, size_t, int)> remap_file_pages{"remap_file_pages"};
  Next<int(void*)> brk{"brk"};
  Next<void*(intptr_t)> sbrk{"sbrk"};
  Next<void*(int, const void*, int)> shmat{"shmat"};
  Next<int(const void*)> shmdt{"shmdt"};
  Next<long(long, long, long, long, long, long, long)> syscall{"syscall"};
} constinit next;

// Announces what a call changes, from before the call to after it, and reports it.
class Announced {
 public:
  explicit Announced(const Affected& affected)
      : of_range_(affected.base, affected.length),
        of_target_(affected.target, affected.target_length) {}

 private:
  Change of_range_;
  Change of_target_;
};

template <typename Result>
Result caught_up(Result mapped, size_t length) {
  if (reinterpret_cast<void*>(mapped) != MAP_FAILED) {
    const auto base = (uintptr_t)mapped;
    changes.catch_up(base, base + in_pages(length));
    // A registration that is in progress there began when the range was still a hole.
    changes.tell(base, base + in_pages(length));
  }
  return mapped;
}

// Watching may have split a mapping into several, of which mremap() moves none before Linux 6.17,
// and later perhaps the first ones only. Trying mremap() first is wrong: when it fails, it may
// already have unmapped the target, which another thread may then map. And madvise() lets go of the
// mapping while it reports a drop of watched pages: if it is split meanwhile, Linux 6.1 drops the
// first part, and says that it has dropped all.
void make_one_mapping(const void* address, size_t length) {
  if (LateMonitor* const late = changes.late()) {
    const os::KeepErrno keep;
    late->let_go(address_of(address), in_pages(length));
  }
}

template <typename Result>
Result told(Result result, bool is_drop) {
  LateMonitor* const late = is_drop ? changes.late() : nullptr;
  if (late != nullptr) late->wait_until_told();
  return result;
}

int unmap(void* address, size_t length) {
  if (auto* const call = next.munmap.get()) return call(address, length);
  return static_cast<int>(
      libc_answer(system_call(SYS_munmap, word(address), static_cast<long>(length))));
}

void* map(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (auto* const call = next.mmap.get()) {
    return call(address, length, protection, flags, fd, offset);
  }
  return reinterpret_cast<void*>(libc_answer(system_call(
      SYS_mmap, word(address), static_cast<long>(length), protection, flags, fd, offset)));
}

// munmap() of heap memory: keeps the addresses reserved so that nobody else is given them.
int reserve(void* address, size_t length) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return map(address, length, PROT_NONE, kFlags, -1, 0) == MAP_FAILED ? -1 : 0;
}

// What mremap() does to heap pages, at its source and at its target. Pages that it trims, or must
// not move, stay where they are.
class HeapMove {
 public:
  HeapMove(const void* base, size_t length, size_t new_length, int flags, const void* target)
      : base_(base),
        length_(in_pages(new_length)),
        is_cut_((flags & (MREMAP_FIXED | kDontUnmap)) == 0 &&
                (new_length <= length || (flags & MREMAP_MAYMOVE) == 0)),
        leaves_mapped_((flags & kDontUnmap) != 0),
        from_("mremap", static_cast<const char*>(base) + kept(length, new_length),
              in_pages(length) - kept(length, new_length)),
        to_("mremap", target, (flags & MREMAP_FIXED) != 0 ? in_pages(new_length) : 0) {}

  void note_result(const void* result) {
    const bool is_done = result != MAP_FAILED;
    to_.note_result(is_done);
    if (!is_done || leaves_mapped_) {
      from_.note_result(is_done);
    } else if (result == base_ && !is_cut_) {
      from_.note_unchanged();
    } else {
      from_.note_unmapped();
    }
    // We had locked the pages, and the lock moved with them.
    if (is_done && result != base_ && from_.is_of_heap())
      os::unlock(const_cast<void*>(result), length_);
  }

 private:
  static constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP, Linux 5.7

  size_t kept(size_t length, size_t new_length) const {
    return is_cut_ ? in_pages(new_length < length ? new_length : length) : 0;
  }

  const void* const base_;
  const size_t length_;
  const bool is_cut_;
  const bool leaves_mapped_;
  HeapHole from_;
  HeapHole to_;
};

// Checked before a call is made by number: calls that touch the heap go through the functions
// below.
bool is_of_heap(long number, long a, long b, long c, long d, long e) {
  const auto at = [](long address) { return pointer_to(static_cast<uintptr_t>(address)); };
  switch (number) {
    case SYS_munmap:
    case SYS_mmap:
    case SYS_mprotect:
    case SYS_remap_file_pages:
      return touches_heap(at(a), static_cast<size_t>(b));
    case SYS_mremap:
      return touches_heap(at(a), static_cast<size_t>(b)) ||
             ((d & MREMAP_FIXED) != 0 && touches_heap(at(e), static_cast<size_t>(c)));
    case SYS_shmat:
      return touches_heap(at(b), 1);
    case SYS_shmdt:
      return touches_heap(at(a), 1);
    default:
      return false;
  }
}

bool changes_memory(long number) {
  switch (number) {
    case SYS_munmap:
    case SYS_mremap:
    case SYS_madvise:
    case SYS_mmap:
    case SYS_mprotect:
    case SYS_brk:
    case SYS_shmat:
    case SYS_shmdt:
    case SYS_remap_file_pages:
    case SYS_process_madvise:
      return true;
    default:
      return false;
  }
}

long call_by_number(long number, long a, long b, long c, long d, long e, long f) {
  auto* const call = next.syscall.get();
  if (call != nullptr) return call(number, a, b, c, d, e, f);
  return libc_answer(system_call(number, a, b, c, d, e, f));
}

Affected of_number(long number, long a, long b, long c, long d, long e) {
  const void* const base = pointer_to(static_cast<uintptr_t>(a));
  const auto length = static_cast<size_t>(b);
  switch (number) {
    case SYS_munmap:
    case SYS_remap_file_pages:
      return {base, in_pages(length)};
    case SYS_mremap:
      return of_mremap(base, length, static_cast<size_t>(c), static_cast<int>(d),
                       pointer_to(static_cast<uintptr_t>(e)));
    case SYS_madvise:
      return {base, is_dropping(static_cast<int>(c)) ? in_pages(length) : 0};
    case SYS_mmap:
      return {base, replaced_by_mmap(base, length, static_cast<int>(d), static_cast<int>(e))};
    case SYS_brk:
      return of_brk(static_cast<uintptr_t>(a));
    case SYS_shmat:
      return of_shmat(static_cast<int>(a), pointer_to(static_cast<uintptr_t>(b)),
                      static_cast<int>(c));
    case SYS_shmdt:
      return of_shmdt(base);
    case SYS_mprotect:
      return {};
    default:  // process_madvise(): the ranges are in an array elsewhere
      return {nullptr, is_dropping(static_cast<int>(d)) ? SIZE_MAX : 0};
  }
}

long change_by_number(long number, long a, long b, long c, long d, long e, long f) {
  const void* const base = pointer_to(static_cast<uintptr_t>(a));
  probe.note(number == SYS_shmat ? pointer_to(static_cast<uintptr_t>(b)) : base);
  if (number == SYS_mprotect) {
    note_protection(base, static_cast<size_t>(b), (c & PROT_WRITE) != 0);
  }
  const Announced announced(of_number(number, a, b, c, d, e));
  const bool is_drop = number == SYS_madvise && is_dropping(static_cast<int>(c));
  if (number == SYS_mremap || is_drop) make_one_mapping(base, static_cast<size_t>(b));
  const long result = call_by_number(number, a, b, c, d, e, f);
  if (number == SYS_madvise && result != 0 &&
      follow_advice(const_cast<void*>(base), static_cast<size_t>(b), static_cast<int>(c))) {
    return 0;
  }
  if (number == SYS_mmap || number == SYS_mremap) {
    return caught_up(result, static_cast<size_t>(number == SYS_mmap ? b : c));
  }
  return told(result, is_drop);
}

}  // namespace

void find_next_calls() {
  next.munmap.find();
  next.mremap.find();
  next.madvise.find();
  next.process_madvise.find();
  next.mmap.find();
  next.mprotect.find();
  next.remap_file_pages.find();
  next.brk.find();
  next.sbrk.find();
  next.shmat.find();
  next.shmdt.find();
  next.syscall.find();
}

}  // namespace rdmalloc::interposed

using namespace rdmalloc::interposed;  // NOLINT(google-build-using-namespace)
namespace os = rdmalloc::os;
using rdmalloc::Change;
using rdmalloc::changes;

RDM_INTERPOSED int munmap(void* address, size_t length) noexcept {
  probe.note(address);
  const Change change(address, in_pages(length));
  HeapHole hole("munmap", address, in_pages(length));
  const int result =
      lies_in_heap(address, in_pages(length)) ? reserve(address, length) : unmap(address, length);
  hole.note_result(result == 0);
  return result;
}

// Fixed parameters where libc has `...`: callers cannot tell, and the last one is used only if the
// flags say that it was passed.
RDM_INTERPOSED void* rdm_interposed_mremap(void* address, size_t length, size_t new_length,
                                           int flags, void* target) asm("mremap");
void* rdm_interposed_mremap(void* address, size_t length, size_t new_length, int flags,
                            void* target) {
  probe.note(address);
  const Announced announced(of_mremap(address, length, new_length, flags, target));
  HeapMove move(address, length, new_length, flags, target);
  make_one_mapping(address, length);
  auto* const call = next.mremap.get();
  void* const result = call != nullptr ? call(address, length, new_length, flags, target)
                                       : reinterpret_cast<void*>(libc_answer(system_call(
                                             SYS_mremap, word(address), static_cast<long>(length),
                                             static_cast<long>(new_length), flags, word(target))));
  move.note_result(result);
  return caught_up(result, new_length);
}

RDM_INTERPOSED int madvise(void* address, size_t length, int advice) noexcept {
  probe.note(address);
  const bool is_drop = is_dropping(advice);
  const Change change(address, is_drop ? in_pages(length) : 0);
  if (is_drop) make_one_mapping(address, length);
  auto* const call = next.madvise.get();
  const int result = call != nullptr
                         ? call(address, length, advice)
                         : static_cast<int>(libc_answer(system_call(
                               SYS_madvise, word(address), static_cast<long>(length), advice)));
  if (result != 0 && follow_advice(address, length, advice)) return 0;
  return told(result, is_drop);
}

// The ranges are where the caller's pointer says, if it is valid: only the kernel can check safely.
RDM_INTERPOSED ssize_t rdm_interposed_process_madvise(int process, const iovec* ranges,
                                                      size_t count, int advice,
                                                      unsigned flags) asm("process_madvise");
ssize_t rdm_interposed_process_madvise(int process, const iovec* ranges, size_t count, int advice,
                                       unsigned flags) {
  const Change change(nullptr, is_dropping(advice) ? SIZE_MAX : 0);
  if (auto* const call = next.process_madvise.find()) {
    return told(call(process, ranges, count, advice, flags), is_dropping(advice));
  }
  errno = ENOSYS;
  return -1;
}

RDM_INTERPOSED void* mmap(void* address, size_t length, int protection, int flags, int fd,
                          off_t offset) noexcept {
  probe.note(address);
  const Change change(address, replaced_by_mmap(address, length, flags, fd));
  const bool may_replace = touches_heap(address, length);
  HeapHole hole("mmap", address, may_replace ? replaced_of_heap(length, flags, fd) : 0);
  void* const result = map(address, length, protection, flags, fd, offset);
  hole.note_result(result != MAP_FAILED);
  return caught_up(result, length);
}

RDM_INTERPOSED void* mmap64(void*, size_t, int, int, int, off_t) noexcept
    __attribute__((alias("mmap")));

// Changes no memory, but may make our code writable.
RDM_INTERPOSED int mprotect(void* address, size_t length, int protection) noexcept {
  probe.note(address);
  note_protection(address, length, (protection & PROT_WRITE) != 0);
  constexpr int kAll = PROT_READ | PROT_WRITE;
  const bool gives_all = (protection & kAll) == kAll;
  if (!gives_all) note_rights(address, length, Rights::kAboutToGo);
  auto* const call = next.mprotect.get();
  const int result =
      call != nullptr ? call(address, length, protection)
                      : static_cast<int>(libc_answer(system_call(
                            SYS_mprotect, word(address), static_cast<long>(length), protection)));
  if (gives_all && result == 0) note_rights(address, length, Rights::kBack);
  return result;
}

RDM_INTERPOSED int remap_file_pages(void* address, size_t length, int protection, size_t offset,
                                    int flags) noexcept {
  probe.note(address);
  const Change change(address, in_pages(length));
  HeapHole hole("remap_file_pages", address, in_pages(length));
  auto* const call = next.remap_file_pages.get();
  const int result = call != nullptr
                         ? call(address, length, protection, offset, flags)
                         : static_cast<int>(libc_answer(system_call(
                               SYS_remap_file_pages, word(address), static_cast<long>(length),
                               protection, static_cast<long>(offset), flags)));
  hole.note_result(result == 0);
  return result;
}

// libc keeps the break in its own variable, so these two must go through libc.
RDM_INTERPOSED int brk(void* end) noexcept {
  probe.note(end);
  const Announced announced(of_brk(address_of(end)));
  if (auto* const call = next.brk.find()) return call(end);
  errno = ENOMEM;
  return -1;
}

// jemalloc calls it when it starts, where dlsym() must not be called: before glibc 2.34 that
// mallocs.
RDM_INTERPOSED void* sbrk(intptr_t increment) noexcept {
  auto* const known = next.sbrk.get();
  auto* const call = known == nullptr ? __sbrk : known;
  if (call == nullptr) {
    errno = ENOMEM;
    return reinterpret_cast<void*>(-1);
  }
  Affected affected;
  if (increment < 0 && is_heard()) {
    affected.length = static_cast<size_t>(-(increment + 1)) + 1;
    affected.base = pointer_to(address_of(call(0)) - affected.length);
  }
  const Announced announced(affected);
  return call(increment);
}

RDM_INTERPOSED void* shmat(int id, const void* address, int flags) noexcept {
  probe.note(address);
  const Announced announced(of_shmat(id, address, flags));
  const void* const base = pointer_to(os::page_floor(address_of(address)));
  const bool may_replace = (flags & SHM_REMAP) != 0 && touches_heap(base, 1);
  const size_t size = may_replace ? segment_size(id) : 0;
  // For a segment that does not exist, the call fails.
  HeapHole hole("shmat", base, size == SIZE_MAX ? 0 : size);
  auto* const call = next.shmat.get();
  void* const result =
      call != nullptr
          ? call(id, address, flags)
          : reinterpret_cast<void*>(libc_answer(system_call(SYS_shmat, id, word(address), flags)));
  hole.note_result(reinterpret_cast<intptr_t>(result) != -1);
  return caught_up(result, changes.sink() != nullptr ? segment_size(id) : 0);
}

RDM_INTERPOSED int shmdt(const void* address) noexcept {
  probe.note(address);
  const Announced announced(of_shmdt(address));
  // A segment can be attached only where the heap's pages are already gone.
  const bool is_in_hole = touches_heap(address, 1) && rdmalloc::heap.marks().is_retired(
                                                          reinterpret_cast<uintptr_t>(address), 1);
  HeapHole hole("shmdt", address, is_in_hole ? attached_length(address) : 0);
  auto* const call = next.shmdt.get();
  const int result = call != nullptr
                         ? call(address)
                         : static_cast<int>(libc_answer(system_call(SYS_shmdt, word(address))));
  if (result == 0) hole.note_unmapped();
  if (result != 0) hole.note_result(false);
  return result;
}

namespace rdmalloc::interposed {
namespace {

long change_heap(long number, long a, long b, long c, long d, long e, long f) {
  void* const base = const_cast<void*>(pointer_to(static_cast<uintptr_t>(a)));
  const auto length = static_cast<size_t>(b);
  switch (number) {
    case SYS_munmap:
      return ::munmap(base, length);
    case SYS_mmap:
      return word(
          ::mmap(base, length, static_cast<int>(c), static_cast<int>(d), static_cast<int>(e), f));
    case SYS_mprotect:
      return ::mprotect(base, length, static_cast<int>(c));
    case SYS_remap_file_pages:
      return ::remap_file_pages(base, length, static_cast<int>(c), static_cast<size_t>(d),
                                static_cast<int>(e));
    case SYS_mremap:
      return word(rdm_interposed_mremap(base, length, static_cast<size_t>(c), static_cast<int>(d),
                                        const_cast<void*>(pointer_to(static_cast<uintptr_t>(e)))));
    case SYS_shmat:
      return word(
          ::shmat(static_cast<int>(a), pointer_to(static_cast<uintptr_t>(b)), static_cast<int>(c)));
    default:
      return ::shmdt(base);
  }
}

}  // namespace
}  // namespace rdmalloc::interposed

// Once Open MPI has overwritten the first instructions of the functions above, its calls arrive
// here.
RDM_INTERPOSED long rdm_interposed_syscall(long number, long a, long b, long c, long d, long e,
                                           long f) asm("syscall");
long rdm_interposed_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (changes_memory(number)) [[unlikely]] {
    if (is_of_heap(number, a, b, c, d, e)) return change_heap(number, a, b, c, d, e, f);
    return change_by_number(number, a, b, c, d, e, f);
  }
  if (rdmalloc::os::installs_filter(number, a, b)) [[unlikely]] {
    rdmalloc::start_heap();  // which cannot be done behind a filter
    return rdmalloc::os::install_filter(number, a, b, c, d, e);
  }
  return call_by_number(number, a, b, c, d, e, f);
}

namespace rdmalloc::interposed {
namespace {

template <typename Function>
Function* as(const void* found) {
  return reinterpret_cast<Function*>(const_cast<void*>(found));
}

using Mmap = void*(void*, size_t, int, int, int, off_t);

void call_mmap(const void* found, void* page) {
  as<Mmap>(found)(page, os::page_size(), PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Sets the break to where it already is.
void call_brk(const void* found, void*) {
  void* const now = reinterpret_cast<void*>(system_call(SYS_brk));
  probe.expect(now);
  as<int(void*)>(found)(now);
}

const Entry kEntries[] = {
    {"munmap", reinterpret_cast<const void*>(&::munmap), false,
     [](const void* found, void* page) { as<int(void*, size_t)>(found)(page, os::page_size()); }},
    {"mremap", reinterpret_cast<const void*>(&::rdm_interposed_mremap), false,
     [](const void* found, void* page) {
       as<void*(void*, size_t, size_t, int, ...)>(found)(page, os::page_size(), os::page_size(), 0);
     }},
    {"madvise", reinterpret_cast<const void*>(&::madvise), false,
     [](const void* found, void* page) {
       as<int(void*, size_t, int)>(found)(page, os::page_size(), MADV_DONTNEED);
     }},
    {"mmap", reinterpret_cast<const void*>(static_cast<Mmap*>(&::mmap)), false, call_mmap},
    {"mmap64", reinterpret_cast<const void*>(static_cast<Mmap*>(&::mmap64)), false, call_mmap},
    {"mprotect", reinterpret_cast<const void*>(&::mprotect), false,
     [](const void* found, void* page) {
       as<int(void*, size_t, int)>(found)(page, os::page_size(), PROT_READ);
     }},
    {"brk", reinterpret_cast<const void*>(&::brk), true, call_brk},
    {"sbrk", reinterpret_cast<const void*>(&::sbrk), true, nullptr},
    {"shmat", reinterpret_cast<const void*>(&::shmat), false,
     [](const void* found, void* page) { as<void*(int, const void*, int)>(found)(-1, page, 0); }},
    {"shmdt", reinterpret_cast<const void*>(&::shmdt), false,
     [](const void* found, void* page) { as<int(const void*)>(found)(page); }},
    {"remap_file_pages", reinterpret_cast<const void*>(&::remap_file_pages), false, nullptr},
    {"process_madvise", reinterpret_cast<const void*>(&::rdm_interposed_process_madvise), false,
     nullptr},
    {"syscall", reinterpret_cast<const void*>(&::rdm_interposed_syscall), false,
     [](const void* found, void* page) {
       as<long(long, ...)>(found)(SYS_munmap, page, os::page_size());
     }},
};

}  // namespace

const Entry* call_entry(size_t index) {
  return index < sizeof kEntries / sizeof *kEntries ? &kEntries[index] : nullptr;
}

}  // namespace rdmalloc::interposed
