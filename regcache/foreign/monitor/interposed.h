// What the files of the interposed monitor share: the functions behind ours, and the checks whether
// calls still come through ours.
//
// interposed_calls.cpp and interposed_threads.cpp define functions of libc's names. They are called
// from anywhere: inside malloc, before libc is initialised, in signal handlers, in forked children;
// so they take no lock, allocate nothing, and leave errno to the function behind.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/monitor/changes.h"

namespace rdmalloc::interposed {

// A function of libc, or of a library between us and libc. Not a system call, so that libraries
// that patch libc's code (UCX) still see the call.
template <typename Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}

  // Null before find_next_functions().
  Function* get() const { return function_.load(std::memory_order_relaxed); }

  // Not inside malloc. Null: there is none.
  Function* find() {
    if (Function* const known = get()) return known;
    auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    function_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* const name_;
  std::atomic<Function*> function_{nullptr};
};

// Once, when the library is loaded.
void find_next_calls();
void find_next_thread_functions();

// Checks that interposition still works: a probe call is announced by its argument, and our
// function notes whether it saw the call.
class Probe {
 public:
  constexpr Probe() = default;

  void expect(const void* argument) {
    seen_.store(false, std::memory_order_relaxed);
    expected_.store(reinterpret_cast<uintptr_t>(argument), std::memory_order_release);
  }
  bool was_seen() const { return seen_.load(std::memory_order_acquire); }

  // Every interposed function, with its first argument.
  void note(const void* argument) {
    const uintptr_t expected = expected_.load(std::memory_order_relaxed);
    if (expected != 0 && expected == reinterpret_cast<uintptr_t>(argument)) [[unlikely]] {
      seen_.store(true, std::memory_order_release);
    }
  }

 private:
  std::atomic<uintptr_t> expected_{0};
  std::atomic<bool> seen_{false};
};

extern constinit Probe probe;

// Somebody makes [base, base + length) writable, or takes that back.
void note_protection(const void* base, size_t length, bool writable);

// A function that is interposed, as the dynamic linker must find it.
struct Entry {
  const char* name;
  const void* ours;
  // If its calls do not arrive, only the heap below the program break is lost, which no malloc uses
  // here (UCX moves the break by a system call of its own).
  bool is_of_break;
  // Calls `found` in a way that changes nothing, with `page`, a page used for nothing else, as the
  // argument that our function must then have noted. Null: there is no such call, so code that
  // precedes ours or changes it is not trusted.
  void (*call)(const void* found, void* page);
};
inline constexpr size_t kMostEntries = 24;
// Null past the last one.
const Entry* call_entry(size_t index);
const Entry* thread_entry(size_t index);

}  // namespace rdmalloc::interposed
