// Every call that unmaps, moves or drops memory is noticed: registrations of that memory are
// released before the call returns. Each way once, and noticed through its function alone.
//
//   monitor_heard MONITOR [PLUGIN]     PLUGIN: a shared object with an array `room` in it
#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>
#include <threads.h>

#include <vector>

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/foreign/monitor/memory_calls.h"

namespace {

const size_t kLength = 16 * probe::kPage;

// Stack memory that libc drops by itself is not cached for a while under userfaultfd, and the next
// thread may get the same stack.
constexpr useconds_t kQuarantineUs = 250'000;

probe::Verdict verdict;
probe::ForeignDevice* device = nullptr;
bool is_monitored = true;

uint64_t given_up() { return probe::stats().foreign_invalidations; }

void keep_registered(void* memory, size_t length) {
  rdm_mr mr{};
  if (device->get(memory, length, &mr) != RDM_OK || device->put(mr) != RDM_OK) {
    verdict.broken("registering: %s", probe::foreign().last_error());
  }
}

// Without a monitor the first evidence is enough; some of the others take seconds.
void expect_heard(const char* name, uint64_t before) {
  if (given_up() != before) return;
  verdict.broken("%s was not heard of", name);
  if (!is_monitored) exit(verdict.status());
}

template <typename Change>
void check(const char* name, char* memory, Change change) {
  keep_registered(memory, kLength);
  const uint64_t before = given_up();
  change(memory);
  expect_heard(name, before);
}

// Memory that Linux before 6.5 takes for a file that it does not register.
template <typename Change>
void check_file(const char* name, char* memory, Change change) {
  if (probe::kernel_refuses(memory, kLength) != EOPNOTSUPP) return check(name, memory, change);
  printf("%s is not tried: this kernel does not register such memory\n", name);
  rdm_mr mr{};
  if (device->get(memory, kLength, &mr) != RDM_SYSTEM ||
      strstr(probe::foreign().last_error(), "a file that the kernel does not pin") == nullptr) {
    verdict.broken("%s: refused with %s", name, probe::foreign().last_error());
  }
  change(memory);
}

char* fresh(int kind = MAP_PRIVATE) {
  char* const memory = probe::map_pages(kLength, kind);
  memset(memory, 1, kLength);
  return memory;
}

// A change that leaves the pages alone must not cost a registration.
void check_harmless() {
  char* const memory = fresh();
  keep_registered(memory, kLength);
  const uint64_t before = given_up();
  char* const other = fresh();
  (void)madvise(memory, kLength, MADV_WILLNEED);
  (void)madvise(memory, kLength, MADV_DONTDUMP);
  (void)mprotect(memory, kLength, PROT_READ);
  (void)madvise(other, kLength, MADV_DONTNEED);
  munmap(other, kLength);
  if (given_up() != before) verdict.broken("harmless calls gave a registration up");
  munmap(memory, kLength);
}

void check_mappings() {
  check("munmap", fresh(), [](char* at) { munmap(at, kLength); });
  check("munmap of the last page", fresh(),
        [](char* at) { munmap(at + kLength - probe::kPage, 1); });
  check("syscall(SYS_munmap)", fresh(), [](char* at) { syscall(SYS_munmap, at, kLength); });
  check("mmap over it", fresh(),
        [](char* at) { mmap(at, 1, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); });
  check("mmap64 over it", fresh(),
        [](char* at) { mmap64(at, 1, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); });
  check("mremap", fresh(), [](char* at) {
    char* const place = fresh();
    mremap(at, kLength, kLength, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  });
  check("mremap that shrinks", fresh(), [](char* at) { mremap(at, kLength, probe::kPage, 0); });
  check("mremap onto it", fresh(),
        [](char* at) { mremap(fresh(), kLength, kLength, MREMAP_MAYMOVE | MREMAP_FIXED, at); });
  check("MREMAP_DONTUNMAP", fresh(), [](char* at) { mremap(at, kLength, kLength, 5); });
  for (const int advice : {MADV_DONTNEED, MADV_FREE, 24}) {
    check("madvise", fresh(), [&](char* at) {
      if (madvise(at, probe::kPage, advice) != 0) verdict.broken("madvise: %s", strerror(errno));
    });
  }
  check("MADV_REMOVE", fresh(MAP_SHARED), [](char* at) { madvise(at, probe::kPage, MADV_REMOVE); });
  check("remap_file_pages", fresh(MAP_SHARED),
        [](char* at) { remap_file_pages(at, probe::kPage, 0, 1, 0); });
}

void check_break() {
  char* const start = static_cast<char*>(sbrk(0));
  sbrk(2 * kLength);
  auto* const at = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(start) + 4095) & ~4095UL);
  check("sbrk", at, [](char*) { sbrk(-static_cast<intptr_t>(2 * kLength)); });
  sbrk(2 * kLength);
  check("brk", at, [&](char*) { (void)!brk(start); });
}

void check_segments() {
  const int id = shmget(IPC_PRIVATE, kLength, 0600 | IPC_CREAT);
  if (id < 0) return verdict.broken("no shared memory: %s", strerror(errno));
  const auto attach = [&] { return static_cast<char*>(shmat(id, nullptr, 0)); };
  char* const first = attach();
  memset(first, 1, kLength);
  check_file("shmdt", first, [](char* at) { shmdt(at); });
  check("shmat over it", fresh(), [&](char* at) { shmat(id, at, SHM_REMAP); });
  shmctl(id, IPC_RMID, nullptr);
}

// A buffer on a thread's stack, registered by that thread or by another.
std::atomic<char*> on_stack{nullptr};
std::atomic<bool> may_end{false};

void use_stack() {
  alignas(4096) char buffer[kLength];
  memset(buffer, 1, sizeof buffer);
  on_stack = buffer;
  while (!may_end) usleep(100);
  on_stack = nullptr;
}

template <typename Start, typename End>
void check_thread(const char* name, Start start, End end) {
  may_end = false;
  start();
  char* buffer = nullptr;
  while ((buffer = on_stack) == nullptr) usleep(100);
  usleep(kQuarantineUs);
  keep_registered(buffer, kLength);
  const uint64_t before = given_up();
  may_end = true;
  end();
  for (int i = 0; i < 2000 && given_up() == before; ++i) usleep(1000);  // detached: end later
  expect_heard(name, before);
}

void check_threads() {
  pthread_t thread{};
  const auto plain = [](void*) -> void* {
    use_stack();
    return nullptr;
  };
  check_thread(
      "the end of a thread", [&] { pthread_create(&thread, nullptr, plain, nullptr); },
      [&] { pthread_join(thread, nullptr); });
  const auto leaving = [](void*) -> void* {
    use_stack();
    pthread_exit(nullptr);
  };
  check_thread(
      "pthread_exit", [&] { pthread_create(&thread, nullptr, leaving, nullptr); },
      [&] { pthread_join(thread, nullptr); });
  const auto cancelled = [](void*) -> void* {
    use_stack();
    for (;;) pause();
  };
  check_thread(
      "a cancelled thread", [&] { pthread_create(&thread, nullptr, cancelled, nullptr); },
      [&] {
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
      });
  check_thread(
      "a detached thread",
      [&] {
        pthread_create(&thread, nullptr, plain, nullptr);
        pthread_detach(thread);
      },
      [] {});
  thrd_t other{};
  const auto run = [](void*) {
    use_stack();
    return 0;
  };
  check_thread(
      "the end of a C11 thread", [&] { thrd_create(&other, run, nullptr); },
      [&] { thrd_join(other, nullptr); });
}

void check_library(const char* plugin) {
  void* const library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  auto* const room = library == nullptr ? nullptr : static_cast<char*>(dlsym(library, "room"));
  if (room == nullptr) return verdict.broken("no room in %s: %s", plugin, dlerror());
  check_file("dlclose", room, [&](char*) { dlclose(library); });
}

}  // namespace

int main(int argc, char** argv) {
  probe::ForeignDevice shared(kLength, {}, verdict);
  device = &shared;
  const char* const monitor = argc > 1 ? argv[1] : "any";
  is_monitored = strcmp(monitor, "none") != 0;
  probe::need_monitor(monitor);
  check_harmless();
  check_mappings();
  check_break();
  check_segments();
  check_threads();
  if (argc > 2) check_library(argv[2]);
  return verdict.status();
}
