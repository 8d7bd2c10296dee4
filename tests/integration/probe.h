// What the test programs ask the system and the library. The library is found at run time, so that
// the same binary runs without it as the control. Nothing here allocates.
//
// Exit status of all programs: 0 the promise holds, 1 it does not (with the reason printed), 77 it
// cannot be tested here (with the reason printed).
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "include/rdmalloc/rdmalloc.h"
#include "tests/support/child.h"

namespace probe {

using rdmalloc::test::ChildEnd;
using rdmalloc::test::end_of;
using rdmalloc::test::end_within;
using rdmalloc::test::kill_child;
using rdmalloc::test::run_child;
using rdmalloc::test::start_child;

inline constexpr int kHolds = 0;
inline constexpr int kBroken = 1;
inline constexpr int kSkipped = 77;
inline const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));  // the machine's

template <typename Function>
Function* symbol(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// The library's functions; null in a control.
struct Library {
  decltype(rdm_owns)* owns = symbol<decltype(rdm_owns)>("rdm_owns");
  decltype(rdm_region_get)* region_get = symbol<decltype(rdm_region_get)>("rdm_region_get");
  decltype(rdm_region_of)* region_of = symbol<decltype(rdm_region_of)>("rdm_region_of");
  decltype(rdm_stats_get)* stats_get = symbol<decltype(rdm_stats_get)>("rdm_stats_get");
  bool loaded() const { return owns != nullptr; }
};

inline const Library& library() {
  static const Library found;
  return found;
}

// False if the object lies in no region or only partly in one.
inline bool region_of(const void* pointer, size_t size, rdm_region* out) {
  return library().region_of(pointer, out) == RDM_OK &&
         reinterpret_cast<uintptr_t>(pointer) + size <=
             reinterpret_cast<uintptr_t>(out->base) + out->length;
}

inline rdm_stats stats() {
  rdm_stats now{};
  if (library().stats_get != nullptr) (void)library().stats_get(&now, sizeof now);
  return now;
}

// Each of `domains` has registered all pinned memory, once. In addition it may hold registrations
// of regions that have since lost some of their pages: those stay until the last page is gone.
inline bool registers_all(const rdm_stats& books, uint64_t domains) {
  const uint64_t pinned = domains * books.pinned_bytes;
  return books.registered_bytes >= pinned &&
         books.registered_bytes - pinned <= domains * books.retired_bytes;
}

// The sum of all verdicts in this process.
inline uint64_t promises_broken = 0;

// Prints the first few reasons to standard output (standard error belongs to the library) and
// counts all.
class Verdict {
 public:
  __attribute__((format(printf, 2, 3))) void broken(const char* format, ...) {
    __atomic_fetch_add(&promises_broken, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&count_, 1, __ATOMIC_RELAXED) >= kPrinted) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > static_cast<int>(sizeof line) - 2) length = sizeof line - 2;
    line[length] = '\n';
    (void)!write(STDOUT_FILENO, line, static_cast<size_t>(length) + 1);
  }
  void expect_good_end(const char* who, const ChildEnd& end) {
    if (!end.exited_well()) broken("%s %s", who, end.sentence());
  }
  int status() const { return count_ == 0 ? kHolds : kBroken; }
  uint64_t count() const { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }

 private:
  static constexpr uint64_t kPrinted = 10;
  uint64_t count_ = 0;
};

inline void say(const char* what, const char* reason) {
  (void)!write(STDOUT_FILENO, what, strlen(what));
  (void)!write(STDOUT_FILENO, reason, strlen(reason));
  (void)!write(STDOUT_FILENO, "\n", 1);
}

// For what this machine lacks. A promise broken earlier stays broken.
[[noreturn]] inline void skip(const char* reason) {
  const bool is_broken = __atomic_load_n(&promises_broken, __ATOMIC_RELAXED) != 0;
  say(is_broken ? "broken before it could be skipped: " : "SKIPPED: ", reason);
  _exit(is_broken ? kBroken : kSkipped);
}

// For a call of malloc or another library function that failed: a broken promise. In a control,
// without the library, nothing was tested.
[[noreturn]] inline void refused(const char* reason) {
  if (!library().loaded()) skip(reason);
  say("refused: ", reason);
  _exit(kBroken);
}

// Requires a kernel that seals mappings. Sealing no bytes does nothing.
inline void need_seals() {
  constexpr long kMseal = 462;
  if (syscall(kMseal, nullptr, 0, 0) != 0) skip("this kernel has no mseal (Linux 6.10)");
}

// Requires an open domain. Only a missing device is a reason to skip.
inline void need_domain(int status, const char* why) {
  if (status == RDM_OK) return;
  if (status == RDM_UNSUPPORTED) skip(why);
  refused(why);
}

// The value, in bytes, of a line such as "VmLck:  12 kB".
inline uint64_t kib_field(const char* file, const char* field) {
  static thread_local char text[16384];
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t held = 0;
  for (ssize_t got = 0; held < sizeof text - 1; held += static_cast<size_t>(got)) {
    got = read(fd, text + held, sizeof text - 1 - held);
    if (got <= 0) break;
  }
  text[held] = '\0';
  close(fd);
  const char* at = strstr(text, field);
  return at == nullptr ? 0 : strtoull(at + strlen(field), nullptr, 10) << 10;
}

inline uint64_t locked_bytes() { return kib_field("/proc/self/status", "VmLck:"); }
// The kernel counts hugetlb pages, which never move or swap, on a line of their own.
inline uint64_t locked_and_hugetlb_bytes() {
  return locked_bytes() + kib_field("/proc/self/status", "HugetlbPages:");
}
inline uint64_t resident_bytes() { return kib_field("/proc/self/status", "VmRSS:"); }

// The frame of the page that holds an address; 0 if none is present. Needs root.
inline uint64_t page_frame(const void* address) {
  static const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  uint64_t entry = 0;
  const auto offset = static_cast<off_t>(reinterpret_cast<uintptr_t>(address) / kPage * 8);
  if (pread(fd, &entry, sizeof entry, offset) != sizeof entry) skip("cannot read pagemap");
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  constexpr uint64_t kFrame = (uint64_t{1} << 55) - 1;
  return (entry & kPresent) != 0 ? entry & kFrame : 0;
}

inline void need_page_frames() {
  static char touched = 1;
  touched = 2;
  if (page_frame(&touched) == 0) skip("page frames are hidden: needs root (CAP_SYS_ADMIN)");
}

// For a promise about what one processor, or its NUMA node, has.
inline void stay_on_processor() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  if (sched_setaffinity(0, sizeof here, &here) != 0) skip("no affinity");
}

// xorshift64*: small, seeded, the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1DU;
  }
  uint64_t below(uint64_t bound) { return next() % bound; }
  // Every doubling between the two is equally likely.
  size_t size_between(size_t least, size_t most) {
    const int doublings = __builtin_clzl(least) - __builtin_clzl(most) + 1;
    const size_t low = least << below(static_cast<uint64_t>(doublings));
    const size_t size = low + below(low);
    return size < most ? size : most;
  }

 private:
  uint64_t state_;
};

inline uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t argument(int argc, char** argv, int index, uint64_t fallback) {
  return argc > index ? strtoull(argv[index], nullptr, 0) : fallback;
}

// Mallocs until nothing is left, from this size down to 16 bytes.
inline void use_up_memory(size_t largest) {
  for (size_t size = largest; size >= 16; size /= 2) {
    while (malloc(size) != nullptr) {
    }
  }
}

}  // namespace probe
