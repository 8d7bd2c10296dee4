// The functions that the library interposes answer as libc's do: the same good and bad calls by
// name and by raw system call, with foreign memory registered meanwhile.
//
//   monitor_calls [MONITOR]
#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>
#include <threads.h>

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/foreign/monitor/memory_calls.h"

namespace {

const size_t kLength = 16 * probe::kPage;

probe::Verdict verdict;

struct Answer {
  long result = 0;
  int error = 0;
};

// errno must stay when a call succeeds.
template <typename Call>
Answer answer_of(Call call) {
  errno = EXFULL;
  const long result = call();
  return {result, errno};
}

// Memory for one call: a mapping with a hole in the middle, and the file behind it.
struct Memory {
  char* base = probe::map_pages(kLength);
  char* gone = probe::map_pages(kLength);
  Memory() {
    memset(base, 1, kLength);
    probe::raw_call(SYS_munmap, reinterpret_cast<uintptr_t>(gone), kLength);
  }
  ~Memory() { probe::raw_call(SYS_munmap, reinterpret_cast<uintptr_t>(base), kLength); }
};

// Results that are addresses inside the given memory are compared by their offset.
void compare(const char* what, Answer by_name, Answer by_number, const Memory& a, const Memory& b) {
  const auto place = [](long result, const Memory& memory) {
    const long offset = result - reinterpret_cast<long>(memory.base);
    if (result == -1 || result == 0) return result;
    return offset >= 0 && offset < static_cast<long>(kLength) ? offset : 1;
  };
  const bool same = place(by_name.result, a) == place(by_number.result, b);
  if (!same || by_name.error != by_number.error) {
    verdict.broken("%s: %ld (%s) by name, %ld (%s) by number", what, by_name.result,
                   strerror(by_name.error), by_number.result, strerror(by_number.error));
  }
}

template <typename ByName, typename ByNumber>
void check(const char* what, ByName by_name, ByNumber by_number) {
  const Memory a;
  const Answer named = answer_of([&] { return by_name(a); });
  const Memory b;
  const Answer numbered = answer_of([&] { return by_number(b); });
  compare(what, named, numbered, a, b);
}

uintptr_t word(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

struct Span {
  const char* name;
  size_t offset;
  size_t length;
};
const Span kSpans[] = {{"all", 0, kLength},
                       {"a page", probe::kPage, probe::kPage},
                       {"nothing", 0, 0},
                       {"a byte", 0, 1},
                       {"not at a page", 1, 4096},
                       {"wrapping", 0, SIZE_MAX},
                       {"half", 0, kLength / 2 + 1},
                       {"almost wrapping", 0, SIZE_MAX - probe::kPage + 1}};

void check_spans() {
  for (const Span& span : kSpans) {
    check(
        "munmap", [&](const Memory& m) { return munmap(m.base + span.offset, span.length); },
        [&](const Memory& m) {
          return probe::raw_call(SYS_munmap, word(m.base + span.offset), span.length);
        });
    // The last one is not a valid advice.
    for (const int advice : {0, 3, 4, 8, 9, 10, 14, 21, 23, 24, 100000}) {
      check(
          "madvise",
          [&](const Memory& m) { return madvise(m.base + span.offset, span.length, advice); },
          [&](const Memory& m) {
            return probe::raw_call(SYS_madvise, word(m.base + span.offset), span.length,
                                   static_cast<uintptr_t>(advice));
          });
    }
    for (const int rights : {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, 0x10000}) {
      check(
          "mprotect",
          [&](const Memory& m) { return mprotect(m.base + span.offset, span.length, rights); },
          [&](const Memory& m) {
            return probe::raw_call(SYS_mprotect, word(m.base + span.offset), span.length,
                                   static_cast<uintptr_t>(rights));
          });
    }
    for (const int flags : {MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, MAP_PRIVATE | MAP_ANONYMOUS,
                            MAP_PRIVATE | MAP_FIXED, MAP_ANONYMOUS | MAP_FIXED,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE}) {
      check(
          "mmap",
          [&](const Memory& m) {
            return reinterpret_cast<long>(
                mmap(m.base + span.offset, span.length, PROT_READ, flags, -1, 0));
          },
          [&](const Memory& m) {
            return probe::raw_call(SYS_mmap, word(m.base + span.offset), span.length, PROT_READ,
                                   static_cast<uintptr_t>(flags), static_cast<uintptr_t>(-1), 0);
          });
    }
    for (const int flags : {0, 1, 2, 3, 5, 7, 8}) {
      for (const size_t wanted : {size_t{0}, probe::kPage, kLength, SIZE_MAX}) {
        check(
            "mremap",
            [&](const Memory& m) {
              return reinterpret_cast<long>(
                  mremap(m.base + span.offset, span.length, wanted, flags, m.gone));
            },
            [&](const Memory& m) {
              return probe::raw_call(SYS_mremap, word(m.base + span.offset), span.length, wanted,
                                     static_cast<uintptr_t>(flags), word(m.gone));
            });
      }
    }
    check(
        "syscall",
        [&](const Memory& m) { return syscall(SYS_munmap, m.base + span.offset, span.length); },
        [&](const Memory& m) {
          return probe::raw_call(SYS_munmap, word(m.base + span.offset), span.length);
        });
  }
}

void check_nowhere() {
  check(
      "munmap of nothing", [](const Memory& m) { return munmap(m.gone, kLength); },
      [](const Memory& m) { return probe::raw_call(SYS_munmap, word(m.gone), kLength); });
  check(
      "madvise of nothing", [](const Memory& m) { return madvise(m.gone, kLength, MADV_DONTNEED); },
      [](const Memory& m) {
        return probe::raw_call(SYS_madvise, word(m.gone), kLength, MADV_DONTNEED);
      });
  check(
      "shmdt of no segment", [](const Memory& m) { return shmdt(m.base); },
      [](const Memory& m) { return probe::raw_call(SYS_shmdt, word(m.base)); });
  check(
      "shmdt of nothing", [](const Memory&) { return shmdt(nullptr); },
      [](const Memory&) { return probe::raw_call(SYS_shmdt, 0); });
  for (const int flags : {0, SHM_REMAP, SHM_RND | SHM_REMAP, 0x7777}) {
    check(
        "shmat of no segment",
        [&](const Memory& m) { return reinterpret_cast<long>(shmat(-1, m.base, flags)); },
        [&](const Memory& m) {
          return probe::raw_call(SYS_shmat, static_cast<uintptr_t>(-1), word(m.base),
                                 static_cast<uintptr_t>(flags));
        });
  }
  for (const int advice : {0, 4, 20, 100000}) {
    check(
        "process_madvise",
        [&](const Memory& m) {
          return process_madvise(-1, reinterpret_cast<iovec*>(m.gone), 3, advice, 0);
        },
        [&](const Memory& m) {
          return probe::raw_call(SYS_process_madvise, static_cast<uintptr_t>(-1), word(m.gone), 3,
                                 static_cast<uintptr_t>(advice), 0);
        });
  }
  check(
      "remap_file_pages",
      [](const Memory& m) { return remap_file_pages(m.base, kLength, 0, 0, 0); },
      [](const Memory& m) {
        return probe::raw_call(SYS_remap_file_pages, word(m.base), kLength, 0, 0, 0);
      });
  check(
      "a call by number that fails", [](const Memory&) { return syscall(SYS_close, -1); },
      [](const Memory&) { return probe::raw_call(SYS_close, static_cast<uintptr_t>(-1)); });
  check(
      "a call by number that does not exist", [](const Memory&) { return syscall(100000); },
      [](const Memory&) { return probe::raw_call(100000); });
  check(
      "a call by number with six arguments",
      [](const Memory& m) {
        return syscall(SYS_mmap, m.base, kLength, PROT_READ,
                       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
      },
      [](const Memory& m) {
        return probe::raw_call(SYS_mmap, word(m.base), kLength, PROT_READ,
                               MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uintptr_t>(-1),
                               0);
      });
}

void check_break() {
  char* const start = static_cast<char*>(sbrk(0));
  errno = EXFULL;
  if (sbrk(3 * 4096) != start || sbrk(0) != start + 3 * 4096) verdict.broken("sbrk up");
  if (brk(start + 4096) != 0 || sbrk(0) != start + 4096) verdict.broken("brk down");
  if (sbrk(-4096) != start + 4096 || sbrk(0) != start) verdict.broken("sbrk down");
  if (errno != EXFULL) verdict.broken("the break moved, and errno is %d", errno);
  if (brk(reinterpret_cast<void*>(1)) == 0 && sbrk(0) != start) verdict.broken("brk to nowhere");
  errno = 0;
  if (sbrk(INTPTR_MAX) != reinterpret_cast<void*>(-1) || errno != ENOMEM)
    verdict.broken("sbrk far");
}

// All the ways a thread's result is collected, and how its creation fails.
void check_threads() {
  pthread_t thread{};
  void* result = nullptr;
  int mark = 0;
  if (pthread_create(
          &thread, nullptr, [](void* in) { return in; }, &mark) != 0 ||
      pthread_join(thread, &result) != 0 || result != &mark) {
    verdict.broken("a thread's result by return");
  }
  const auto leave = [](void* in) -> void* { pthread_exit(in); };
  if (pthread_create(&thread, nullptr, leave, &mark) != 0 || pthread_join(thread, &result) != 0 ||
      result != &mark) {
    verdict.broken("a thread's result by pthread_exit");
  }
  const auto sleep_on = [](void*) -> void* {
    for (;;) pause();
  };
  if (pthread_create(&thread, nullptr, sleep_on, nullptr) != 0 || pthread_cancel(thread) != 0 ||
      pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED) {
    verdict.broken("a cancelled thread");
  }
  thrd_t other{};
  int number = 0;
  if (thrd_create(
          &other, [](void*) { return 42; }, nullptr) != thrd_success ||
      thrd_join(other, &number) != thrd_success || number != 42) {
    verdict.broken("a thread of C11");
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{1} << 50);
  if (pthread_create(&thread, &attributes, sleep_on, nullptr) != EAGAIN) {
    verdict.broken("a thread with a stack too large");
  }
  pthread_attr_destroy(&attributes);
}

}  // namespace

int main(int argc, char** argv) {
  probe::ForeignDevice device(kLength, {}, verdict);
  if (argc > 1) probe::need_monitor(argv[1]);
  const Memory kept;
  rdm_mr mr{};
  if (device.get(kept.base, kLength, &mr) != RDM_OK || device.put(mr) != RDM_OK) {
    verdict.broken("registering: %s", probe::foreign().last_error());
  }
  check_spans();
  check_nowhere();
  check_break();
  check_threads();
  return verdict.status();
}
