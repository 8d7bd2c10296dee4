// A program that, as sandboxes do, allows itself a handful of system calls and is killed at any
// other. From then on it allocates, resizes and frees blocks of all sizes.
//
//   confined prctl | syscall | unheard | late | child | threads [pinned]
//   confined tell | not
//
// prctl, syscall: the libc function that installs the filter. unheard: installed by neither. late:
// when the program already has a heap of 100 MiB. child, threads: starts those, whose calls are
// then allowed. pinned: memory is still pinned as before. tell: a forbidden call is named on
// standard error and answered with ENOSYS. not: without a filter, when one already surrounds the
// program.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/integration/probe.h"
#include "tests/integration/system_call_filter.h"

namespace {

constexpr unsigned kAllowed[] = {SYS_read,     SYS_write,      SYS_mmap,        SYS_munmap,
                                 SYS_mprotect, SYS_madvise,    SYS_mremap,      SYS_brk,
                                 SYS_exit,     SYS_exit_group, SYS_rt_sigreturn};

// The calls libc makes to start and wait for a thread or a child, and for contended locks.
constexpr unsigned kOfThreads[] = {SYS_clone,           SYS_clone3, SYS_wait4,
                                   SYS_set_robust_list, SYS_rseq,   SYS_rt_sigprocmask,
                                   SYS_rt_sigaction,    SYS_futex,  SYS_gettid};

constexpr size_t kBlocks = 4096;
constexpr size_t kLargest = size_t{32} << 20;
constexpr size_t kMost = size_t{200} << 20;  // bytes live at once

probe::Verdict verdict;
probe::Random random_numbers(7);

struct Block {
  unsigned char* memory = nullptr;
  size_t size = 0;
  unsigned char mark = 0;
};
Block blocks[kBlocks];
size_t live = 0;

void on_call(int, siginfo_t* what, void* context) {
  char line[] = "system call 000\n";
  for (unsigned number = static_cast<unsigned>(what->si_syscall), i = 0; i < 3; ++i) {
    line[14 - i] = static_cast<char>('0' + number % 10);
    number /= 10;
  }
  (void)!write(STDERR_FILENO, line, sizeof line - 1);
#if defined(__x86_64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#else
  static_cast<ucontext_t*>(context)->uc_mcontext.regs[0] = static_cast<uint64_t>(-ENOSYS);
#endif
}

// If only the kernel can read its clock source (hpet, acpi_pm), asking for the time takes a system
// call: in libc, in jemalloc, and in rdmalloc.
bool is_time_a_call() {
  char name[32] = {};
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY);
  if (fd < 0) return false;
  if (read(fd, name, sizeof name - 1) < 0) name[0] = '\0';
  close(fd);
  return strncmp(name, "hpet", 4) == 0 || strncmp(name, "acpi_pm", 7) == 0 ||
         strncmp(name, "jiffies", 7) == 0 || strncmp(name, "refined-jiffies", 15) == 0;
}

bool confine(const char* way) {
  if (strcmp(way, "not") == 0) return true;
  const bool is_told = strcmp(way, "tell") == 0;
  if (is_told) {
    struct sigaction action {};
    action.sa_sigaction = on_call;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSYS, &action, nullptr);
  }
  filter::Program program(is_told ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS);
  for (const unsigned number : kAllowed) program.answer({number}, SECCOMP_RET_ALLOW);
  if (is_time_a_call()) program.answer({SYS_clock_gettime}, SECCOMP_RET_ALLOW);
  const bool starts = strcmp(way, "child") == 0 || strcmp(way, "threads") == 0;
  for (const unsigned number : kOfThreads) {
    if (starts) program.answer({number}, SECCOMP_RET_ALLOW);
  }
  if (strcmp(way, "unheard") == 0 || is_told) return program.install_unheard();
  return program.install(strcmp(way, "syscall") == 0);
}

void check(const Block& block) {
  if (block.size != 0 &&
      (block.memory[0] != block.mark || block.memory[block.size / 2] != block.mark ||
       block.memory[block.size - 1] != block.mark)) {
    verdict.broken("a block of %zu bytes lost its contents", block.size);
  }
}

void fill(Block* block, unsigned char* memory, size_t size) {
  if (memory == nullptr) verdict.broken("no memory for %zu bytes", size);
  live += (memory == nullptr ? 0 : size) - block->size;
  *block = {memory, memory == nullptr ? 0 : size, static_cast<unsigned char>(size % 251 + 1)};
  if (memory != nullptr) memset(memory, block->mark, size);
}

void drop(Block* block) {
  check(*block);
  free(block->memory);
  live -= block->size;
  *block = {};
}

void resize(Block* block, size_t size) {
  check(*block);
  const unsigned char before = block->mark;
  auto* const memory = static_cast<unsigned char*>(realloc(block->memory, size));
  if (memory != nullptr && block->size != 0 && size != 0 && memory[0] != before) {
    verdict.broken("realloc from %zu to %zu bytes lost the contents", block->size, size);
  }
  fill(block, memory, size);
}

// Sizes from 1 byte to 32 MiB, through every allocation function, leaving holes too small for large
// blocks.
void churn(size_t steps) {
  for (size_t i = 0; i < steps; ++i) {
    Block* const block = &blocks[random_numbers.below(kBlocks)];
    const size_t size = random_numbers.size_between(1, kLargest);
    if (block->memory != nullptr || live + size > kMost) {
      if (block->memory != nullptr && live + size <= kMost && i % 3 == 0) {
        resize(block, size);
      } else {
        drop(block);
      }
      continue;
    }
    void* memory = nullptr;
    if (i % 4 == 0) memory = calloc(1, size);
    if (i % 4 == 1 && posix_memalign(&memory, size_t{8} << random_numbers.below(17), size) != 0) {
      memory = nullptr;
    }
    if (i % 4 > 1) memory = malloc(size);
    fill(block, static_cast<unsigned char*>(memory), size);
  }
}

void drop_all() {
  for (Block& block : blocks) drop(&block);
}

// Grows one block larger and larger by moving it.
void grow_one() {
  Block block;
  for (size_t size = 4096; size < 2 * kLargest; size += size / 3) resize(&block, size);
  drop(&block);
}

void run_child() {
  const pid_t child = fork();  // the filter forbids alarms
  if (child == 0) {
    const uint64_t inherited = probe::stats().pinned_bytes;
    churn(3000);
    drop_all();
    grow_one();
    // Neither inherited nor new memory is locked.
    if (inherited != 0 || probe::stats().pinned_bytes != 0) verdict.broken("the child claims pins");
    _exit(verdict.status());
  }
  verdict.expect_good_end("the child", probe::end_of(child));
}

void* run_thread(void* raw) {
  probe::Random numbers(reinterpret_cast<uintptr_t>(raw));
  constexpr size_t kOwn = 64;
  unsigned char* own[kOwn] = {};
  for (int i = 0; i < 5000; ++i) {
    unsigned char*& one = own[numbers.below(kOwn)];
    if (one != nullptr && *one != 7) {
      verdict.broken("a thread's block lost its contents");
    }
    free(one);
    one = static_cast<unsigned char*>(malloc(numbers.size_between(1, size_t{1} << 20)));
    if (one == nullptr) verdict.broken("no memory for a thread");
    if (one != nullptr) *one = 7;
  }
  for (unsigned char* one : own) free(one);
  return nullptr;
}

void run_threads() {
  constexpr size_t kThreads = 8;
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], nullptr, run_thread, reinterpret_cast<void*>(i + 1));
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

// Through a descriptor opened earlier.
uint64_t read_locked(int status_file) {
  static char text[8192];
  const ssize_t got = read(status_file, text, sizeof text - 1);
  const char* const at = got > 0 ? strstr(text, "VmLck:") : nullptr;
  if (at == nullptr) return 0;
  uint64_t kib = 0;
  for (const char* c = at + 6; *c != 'k'; ++c) {
    if (*c >= '0' && *c <= '9') kib = kib * 10 + static_cast<uint64_t>(*c - '0');
  }
  return kib << 10;
}

// New memory is pinned, and the kernel agrees.
void check_pins(const rdm_stats& before, uint64_t locked_before, int status_file) {
  const rdm_stats now = probe::stats();
  const uint64_t more = now.held_bytes - before.held_bytes;
  const uint64_t locked = read_locked(status_file) - locked_before;
  if (more < kLargest) verdict.broken("%lu bytes only were acquired", more);
  // Locked memory comes in whole pages.
  if (locked < more || locked > more + probe::kPage) {
    verdict.broken("%lu bytes were acquired, and %lu locked", more, locked);
  }
  if (now.overflow_bytes > before.overflow_bytes) {
    verdict.broken("%lu bytes more are not pinned", now.overflow_bytes - before.overflow_bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool pinned = argc > 2 && strcmp(argv[2], "pinned") == 0;
  free(malloc(1));
  if (strcmp(argv[1], "late") == 0) {
    churn(3000);
    drop_all();
  }
  const int status_file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const rdm_stats before = pinned ? probe::stats() : rdm_stats{};
  const uint64_t locked_before = probe::locked_bytes();
  if (!confine(argv[1])) probe::skip("the kernel installs no filter");
  churn(20000);
  grow_one();
  if (strcmp(argv[1], "child") == 0) run_child();
  if (strcmp(argv[1], "threads") == 0) run_threads();
  drop_all();
  if (pinned) check_pins(before, locked_before, status_file);
  return verdict.status();
}
