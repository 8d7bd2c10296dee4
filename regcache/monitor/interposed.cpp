#include "regcache/monitor/interposed.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/memory_calls.h"
#include "regcache/monitor/monitor.h"

namespace rdmalloc {
namespace interposed {

constinit Probe probe;

namespace {

// Enough for a jump to anywhere.
constexpr size_t kSeenCode = 16;

// Where calls come through our functions, what changes is told before it does, by whoever makes the
// change. So this monitor has nothing to do but to look whether they still come: somebody may stand
// before us in the order of symbols, and libraries exist that overwrite the first instructions of
// functions with a jump (Open MPI's memory patcher, on ours: it asks the dynamic linker where
// munmap is; UCX overwrites libc's, behind us, and hears of every call as ever). That is no loss
// where their functions end in ours again, which is tried.
//
// Whoever overwrites code must make it writable, by mprotect(), which is interposed: from then on
// nothing is kept until it was tried. watch() compares the code itself as well.
class InterposedMonitor final : public Monitor {
 public:
  const char* name() const noexcept override { return "interposed"; }
  const char* why() const noexcept override { return why_.load(std::memory_order_acquire); }
  bool watch(uintptr_t base, size_t length) noexcept override {
    const bool complete =
        (state_.load(std::memory_order_acquire) == kComplete && is_code_as_seen()) || look();
    return complete && !is_unheard(base, base + length);
  }
  void unwatch(uintptr_t, size_t) noexcept override {}
  void note_fork_child() noexcept override { pthread_mutex_init(&looking_, nullptr); }

  // When the library is loaded, on the only thread, or nearly.
  void remember();
  void note_protection(uintptr_t base, uintptr_t end, bool writable);
  // Whether calls come through our functions.
  bool look();

 private:
  enum State : uint32_t { kUnknown, kComplete, kWritable, kLost };

  bool is_code_as_seen() const;
  bool is_unheard(uintptr_t base, uintptr_t end) const;
  bool is_reached(const Entry& entry, size_t index);
  void lose(const Entry& entry, const void* found);

  // Null past the last one. All of this as when the library was loaded.
  const Entry* entries_[kMostEntries + 1] = {};
  uintptr_t code_base_ = 0;
  uintptr_t code_end_ = 0;
  uintptr_t program_end_ = 0;  // the heap is above
  std::atomic<bool> lost_break_{false};
  std::atomic<State> state_{kUnknown};
  std::atomic<const char*> why_{"calls come through our functions"};
  pthread_mutex_t looking_ = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
  unsigned char code_[kMostEntries][kSeenCode] = {};
  char text_[320] = {};
};

constinit InterposedMonitor monitor;

void InterposedMonitor::remember() {
  size_t count = 0;
  for (size_t i = 0; const Entry* const one = call_entry(i); ++i) entries_[count++] = one;
  for (size_t i = 0; const Entry* const one = thread_entry(i); ++i) entries_[count++] = one;
  const auto look = [](dl_phdr_info* object, size_t, void* raw) {
    auto* const self = static_cast<InterposedMonitor*>(raw);
    const auto inside = reinterpret_cast<uintptr_t>(self->entries_[0]->ours);
    uintptr_t last = 0;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = object->dlpi_phdr[i];
      const uintptr_t base = object->dlpi_addr + part.p_vaddr;
      const uintptr_t end = base + part.p_memsz;
      if (part.p_type != PT_LOAD) continue;
      if (end > last) last = end;
      if (inside < base || inside >= end) continue;
      self->code_base_ = base;
      self->code_end_ = end;
    }
    if (self->program_end_ == 0) self->program_end_ = last;  // the program comes first
    return 0;
  };
  dl_iterate_phdr(look, this);
  for (size_t i = 0; i < count; ++i) memcpy(code_[i], entries_[i]->ours, kSeenCode);
}

bool InterposedMonitor::is_code_as_seen() const {
  for (size_t i = 0; entries_[i] != nullptr; ++i) {
    if (memcmp(code_[i], entries_[i]->ours, kSeenCode) != 0) return false;
  }
  return true;
}

void InterposedMonitor::note_protection(uintptr_t base, uintptr_t end, bool writable) {
  if (base >= code_end_ || end <= code_base_) return;
  State state = state_.load(std::memory_order_relaxed);
  while (state != kLost && !state_.compare_exchange_weak(state, writable ? kWritable : kUnknown)) {
  }
  if (writable) changes.tell(0, UINTPTR_MAX);
}

bool InterposedMonitor::is_unheard(uintptr_t base, uintptr_t end) const {
  if (!lost_break_.load(std::memory_order_relaxed)) return false;
  return base < static_cast<uintptr_t>(os::system_call(SYS_brk)) && end > program_end_;
}

bool InterposedMonitor::is_reached(const Entry& entry, size_t index) {
  const void* const found = dlsym(RTLD_DEFAULT, entry.name);
  if (found == entry.ours && memcmp(code_[index], entry.ours, kSeenCode) == 0) return true;
  if (found != nullptr && entry.call != nullptr) {
    void* const page =
        os::mmap(nullptr, os::kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    const os::KeepErrno keep;
    probe.expect(page);
    entry.call(found, page);
    const bool seen = probe.was_seen();
    probe.expect(nullptr);
    os::munmap(page, os::kPageSize);
    if (seen) return true;
  }
  if (!lost_break_.load(std::memory_order_relaxed)) lose(entry, found);
  if (entry.is_of_break) lost_break_.store(true, std::memory_order_relaxed);
  return entry.is_of_break;
}

void InterposedMonitor::lose(const Entry& entry, const void* found) {
  Dl_info where{};
  if (found == nullptr || dladdr(found, &where) == 0) where.dli_fname = nullptr;
  if (found == entry.ours) {
    snprintf(
        text_, sizeof text_,
        "another library has overwritten the code of our %s, and calls of it do not arrive any "
        "more: switch its memory hooks off",
        entry.name);
  } else {
    snprintf(
        text_, sizeof text_,
        "calls of %s go to %s and not through our function: preload the library, before others "
        "(rdmalloc run)",
        entry.name, where.dli_fname != nullptr ? where.dli_fname : "another library");
  }
  why_.store(text_, std::memory_order_release);
}

bool InterposedMonitor::look() {
  pthread_mutex_lock(&looking_);
  State before = state_.load(std::memory_order_acquire);
  bool complete = before == kUnknown || before == kComplete;
  if (before == kWritable) why_ = "another library has made our code writable and may change it";
  if (before == kComplete && !is_code_as_seen()) changes.tell(0, UINTPTR_MAX);
  for (size_t i = 0; complete && entries_[i] != nullptr; ++i) {
    complete = is_reached(*entries_[i], i);
    memcpy(code_[i], entries_[i]->ours, kSeenCode);
  }
  if (before == kUnknown || before == kComplete) {
    complete = state_.compare_exchange_strong(before, complete ? kComplete : kLost) && complete;
  }
  if (complete && !lost_break_) why_ = "calls come through our functions";
  if (complete && lost_break_) why_ = text_;
  pthread_mutex_unlock(&looking_);
  return complete;
}

[[gnu::constructor]] void load() {
  find_next_calls();
  find_next_thread_functions();
  monitor.remember();
}

}  // namespace

void note_protection(const void* base, size_t length, bool writable) {
  const auto from = reinterpret_cast<uintptr_t>(base);
  monitor.note_protection(from, from + length, writable);
}

}  // namespace interposed

Monitor* start_interposed_monitor(const char** why) {
  const bool complete = interposed::monitor.look();
  *why = interposed::monitor.why();
  return complete ? &interposed::monitor : nullptr;
}

}  // namespace rdmalloc
