#include "regcache/foreign/monitor/interposed.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "allocator/os/clock.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/memory_calls.h"
#include "regcache/foreign/monitor/interposed_bindings.h"
#include "regcache/foreign/monitor/monitor.h"

namespace rdmalloc {
namespace interposed {

constinit Probe probe;

namespace {

// The first of a function: long enough for a jump to any address.
using Instructions = uint64_t __attribute__((vector_size(16)));

constexpr uint64_t kLookAgainNs = 1'000'000'000;

// As long as calls come through our functions, the calling thread reports each change before it
// happens. So this monitor only checks that calls still arrive: another library may precede us in
// symbol order, and some libraries overwrite the first instructions of functions with a jump. (Open
// MPI's memory patcher overwrites ours, because it asks the dynamic linker where munmap is; UCX
// overwrites libc's, behind us, and still sees every call.) If their functions end in ours again,
// nothing is lost; probe calls test that.
//
// To overwrite code, a library must first make it writable with mprotect(), which is interposed:
// from then on nothing is kept until the probe calls have been repeated. look() also compares the
// code itself.
//
// The tables of bound symbols can be rewritten as well. Those of all objects are checked now and
// then, and when somebody makes the program's table writable, as UCX does.
class InterposedMonitor final : public Monitor {
 public:
  const char* name() const noexcept override { return "interposed"; }
  const char* why() const noexcept override { return why_.load(std::memory_order_acquire); }
  bool look() noexcept override {
    const bool is_known =
        state_.load(std::memory_order_acquire) == kComplete && is_code_as_seen() &&
        os::now_about_ns() - looked_at_.load(std::memory_order_relaxed) < kLookAgainNs;
    return is_known || look_again();
  }
  bool watch(uintptr_t base, size_t length) noexcept override {
    return state_.load(std::memory_order_acquire) == kComplete && !is_unheard(base, base + length);
  }
  void unwatch(uintptr_t, size_t) noexcept override {}
  void note_fork_child() noexcept override {}

  // Called when the library is loaded, while there is hardly any other thread.
  void remember();
  void note_protection(uintptr_t base, uintptr_t end, bool writable);
  // Whether calls come through our functions. Also false while another thread is checking: that one
  // may wait for the dynamic linker, so nobody waits for it.
  bool look_again();
  // Called before the first check, by the only thread that knows this monitor.
  void start() { is_looking_.store(false, std::memory_order_relaxed); }

 private:
  enum State : uint32_t { kUnknown, kComplete, kWritable, kLost };

  bool look_at_all();
  bool is_code_as_seen() const;
  bool is_unheard(uintptr_t base, uintptr_t end) const;
  bool is_reached(const Entry& entry, size_t index, const void* found);
  bool are_bound_calls_reached();
  bool collect(const char* name, const void* bound_to);
  void lose(const Entry& entry, const void* found);

  // Null-terminated. All of these are recorded when the library is loaded.
  const Entry* entries_[kMostEntries + 1] = {};
  uintptr_t code_base_ = 0;
  uintptr_t code_end_ = 0;
  uintptr_t program_base_ = 0;
  uintptr_t program_end_ = 0;  // the heap lies above
  std::atomic<bool> lost_break_{false};
  std::atomic<State> state_{kUnknown};
  std::atomic<uint64_t> looked_at_{0};  // os::now_about_ns()
  std::atomic<const char*> why_{"calls come through our functions"};
  std::atomic<bool> is_looking_{false};  // set by one thread, which owns what follows
  struct Code {
    const void* at;  // null past the last one
    Instructions seen;
  } code_[kMostEntries + 1] = {};  // of entries_
  char text_[320] = {};
  // Targets outside our code that calls are bound to, each once.
  static constexpr size_t kMostBound = 32;
  struct Bound {
    size_t index;
    const void* to;
  } bound_[kMostBound] = {};
  size_t bound_count_ = 0;
};

constinit InterposedMonitor monitor;

void InterposedMonitor::remember() {
  size_t count = 0;
  for (size_t i = 0; const Entry* const one = call_entry(i); ++i) entries_[count++] = one;
  for (size_t i = 0; const Entry* const one = thread_entry(i); ++i) entries_[count++] = one;
  const auto visit = [](dl_phdr_info* object, size_t, void* raw) {
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
    if (self->program_end_ == 0) {  // the program is the first object
      self->program_base_ = object->dlpi_addr;
      self->program_end_ = last;
    }
    return 0;
  };
  dl_iterate_phdr(visit, this);
  for (size_t i = 0; i < count; ++i) {
    code_[i].at = entries_[i]->ours;
    memcpy(&code_[i].seen, code_[i].at, sizeof code_[i].seen);
  }
}

bool InterposedMonitor::is_code_as_seen() const {
  Instructions changed{};
  for (const Code* code = code_; code->at != nullptr; ++code) {
    Instructions now;
    memcpy(&now, code->at, sizeof now);
    changed |= now ^ code->seen;
  }
  return (changed[0] | changed[1]) == 0;
}

void InterposedMonitor::note_protection(uintptr_t base, uintptr_t end, bool writable) {
  if (base < program_end_ && end > program_base_ && writable) {
    State known = kComplete;
    if (state_.compare_exchange_strong(known, kUnknown)) changes.tell(0, UINTPTR_MAX);
  }
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

bool InterposedMonitor::is_reached(const Entry& entry, size_t index, const void* found) {
  if (found == entry.ours && memcmp(&code_[index].seen, entry.ours, sizeof Code::seen) == 0)
    return true;
  if (found != nullptr && entry.call != nullptr) {
    void* const page =
        os::mmap(nullptr, os::page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    const os::KeepErrno keep;
    probe.expect(page);
    entry.call(found, page);
    const bool seen = probe.was_seen();
    probe.expect(nullptr);
    os::munmap(page, os::page_size());
    if (seen) return true;
  }
  if (!lost_break_.load(std::memory_order_relaxed)) lose(entry, found);
  if (entry.is_of_break) lost_break_.store(true, std::memory_order_relaxed);
  return entry.is_of_break;
}

// False: there is no room.
bool InterposedMonitor::collect(const char* name, const void* bound_to) {
  for (size_t i = 0; entries_[i] != nullptr; ++i) {
    if (strcmp(entries_[i]->name, name) != 0) continue;
    if (bound_to == entries_[i]->ours) return true;
    for (size_t k = 0; k < bound_count_; ++k) {
      if (bound_[k].index == i && bound_[k].to == bound_to) return true;
    }
    if (bound_count_ == kMostBound) return false;
    bound_[bound_count_++] = {i, bound_to};
    return true;
  }
  return true;
}

// The targets found are tried after the walk, without the dynamic linker's lock.
bool InterposedMonitor::are_bound_calls_reached() {
  bound_count_ = 0;
  struct Walk {
    InterposedMonitor* self;
    bool is_all = true;
  } walk{this};
  for_each_bound_call(
      [](void* raw, const char* name, const void* bound_to) {
        auto* const its = static_cast<Walk*>(raw);
        its->is_all = its->self->collect(name, bound_to);
        return its->is_all;
      },
      &walk);
  for (size_t i = 0; i < bound_count_; ++i) {
    if (!is_reached(*entries_[bound_[i].index], bound_[i].index, bound_[i].to)) return false;
  }
  return walk.is_all;
}

void InterposedMonitor::lose(const Entry& entry, const void* found) {
  Dl_info where{};
  if (found == nullptr || dladdr(found, &where) == 0) where.dli_fname = nullptr;
  if (found == entry.ours) {
    snprintf(
        text_, sizeof text_,
        "another library has overwritten the code of our %s, and calls of it do not arrive any "
        "more%s: switch its memory hooks off",
        entry.name, entry.is_of_break ? ", so memory below the program break is not kept" : "");
  } else {
    snprintf(
        text_, sizeof text_,
        "calls of %s go to %s and not through our function: preload the library, before others "
        "(rdmalloc run), and switch memory hooks off that rewrite bound symbols",
        entry.name, where.dli_fname != nullptr ? where.dli_fname : "another library");
  }
  why_.store(text_, std::memory_order_release);
}

bool InterposedMonitor::look_again() {
  if (is_looking_.exchange(true, std::memory_order_acquire)) return false;
  const bool complete = look_at_all();
  is_looking_.store(false, std::memory_order_release);
  return complete;
}

bool InterposedMonitor::look_at_all() {
  State before = state_.load(std::memory_order_acquire);
  bool complete = before == kUnknown || before == kComplete;
  if (before == kWritable) why_ = "another library has made our code writable and may change it";
  if (before == kComplete && !is_code_as_seen()) changes.tell(0, UINTPTR_MAX);
  for (size_t i = 0; complete && entries_[i] != nullptr; ++i) {
    complete = is_reached(*entries_[i], i, dlsym(RTLD_DEFAULT, entries_[i]->name));
    memcpy(&code_[i].seen, code_[i].at, sizeof code_[i].seen);
  }
  complete = complete && are_bound_calls_reached();
  if (!complete) changes.tell(0, UINTPTR_MAX);
  looked_at_.store(os::now_about_ns(), std::memory_order_relaxed);
  if (before == kUnknown || before == kComplete) {
    complete = state_.compare_exchange_strong(before, complete ? kComplete : kLost) && complete;
  }
  if (complete && !lost_break_) why_ = "calls come through our functions";
  if (complete && lost_break_) why_ = text_;
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
  // A thread of the parent may have been checking at the fork.
  interposed::monitor.start();
  const bool complete = interposed::monitor.look_again();
  *why = interposed::monitor.why();
  return complete ? &interposed::monitor : nullptr;
}

}  // namespace rdmalloc
