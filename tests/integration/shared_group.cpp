// Several processes of one control group allocate, at the same time or in turn, and use part of the
// memory: none may be killed that would have survived on glibc's malloc, and none refused.
//
//   shared_group PROCESSES EACH_MIB TOUCHED_MIB BLOCK_KIB [ROUNDS [domain [in-turn]]]
//
// In each round this many processes malloc EACH_MIB in blocks and write to the first TOUCHED_MIB.
// With `domain` each has an open domain, which registers its pinned memory. Nothing is freed until
// all have what they asked for. On pages of more than 4 KiB it is a little less. With `in-turn` a
// process starts when the one before has that.
#include <poll.h>
#include <signal.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMostProcesses = 64;
constexpr int kPatienceMs = 60'000;
constexpr size_t kPagesBeside = 64;  // of a process besides its heap: text, stacks, page tables
constexpr uint64_t kLeftBytes = 16 << 20;  // page tables, page cache, statistics of the kernel

struct Wish {
  size_t each;     // bytes
  size_t touched;  // bytes
  size_t block;    // bytes
  bool has_domain;
  bool in_turn;
};

struct Process {
  pid_t number = 0;
  int commands = -1;  // written to
  int answers = -1;   // read from
};

probe::Verdict verdict;

void open_domain() {
  auto* const open_ring =
      probe::symbol<decltype(rdm_domain_open_io_uring)>("rdm_domain_open_io_uring");
  if (open_ring == nullptr) return;
  rdm_domain* domain = nullptr;
  rdm_domain_options options{};
  options.size = sizeof options;
  (void)open_ring(-1, &options, &domain);
}

// How much more than with pages of 4 KiB a process uses of what it does not write to. glibc's
// malloc writes to a page of each block.
size_t beyond_4k(const Wish& wish) {
  const size_t blocks = probe::library().loaded() ? 0 : wish.each / wish.block;
  return (kPagesBeside + blocks) * (probe::kPage - 4096);
}

// Returns the bytes obtained.
size_t take(const Wish& wish) {
  size_t got = 0;
  for (; got < wish.each; got += wish.block) {
    void* const block = malloc(wish.block);
    if (block == nullptr) break;
    const size_t left = got < wish.touched ? wish.touched - got : 0;
    memset(block, 1, left < wish.block ? left : wish.block);
  }
  return got;
}

// A separate process, as after exec.
[[noreturn]] void serve(const Wish& wish) {
  char go = 0;
  if (wish.has_domain) open_domain();
  if (read(STDIN_FILENO, &go, 1) != 1) _exit(1);
  const size_t got = take(wish);
  if (write(STDOUT_FILENO, &got, sizeof got) != sizeof got) _exit(1);
  (void)!read(STDIN_FILENO, &go, 1);
  _exit(0);
}

Process start(char** arguments) {
  int down[2];
  int up[2];
  if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) probe::skip("no pipes");
  const pid_t number = fork();
  if (number == 0) {
    dup2(down[0], STDIN_FILENO);
    dup2(up[1], STDOUT_FILENO);
    setenv("SHARED_GROUP", "1", 1);
    execv("/proc/self/exe", arguments);
    _exit(1);
  }
  close(down[0]);
  close(up[1]);
  return {number, down[1], up[0]};
}

// The bytes it obtained; nothing if it was killed.
size_t wait_for(const Process& process) {
  pollfd waiting{process.answers, POLLIN, 0};
  size_t got = 0;
  if (poll(&waiting, 1, kPatienceMs) != 1) verdict.broken("a process is not done in time");
  return read(process.answers, &got, sizeof got) == sizeof got ? got : 0;
}

void end(const Process& process, size_t* killed) {
  close(process.commands);
  close(process.answers);
  *killed += probe::end_of(process.number).signal() != 0 ? 1 : 0;
}

// What the control group uses, in bytes; 0 if the program is not in one.
uint64_t group_bytes() {
  const char* const file = getenv("CASE_GROUP_BYTES");
  FILE* const opened = file == nullptr ? nullptr : fopen(file, "re");
  if (opened == nullptr) return 0;
  unsigned long long bytes = 0;
  if (fscanf(opened, "%llu", &bytes) != 1) verdict.broken("%s has no number", file);
  fclose(opened);
  return bytes;
}

// The kernel dismantles a ring and unpins its memory at some time after the process has ended.
void wait_for_rings(uint64_t before) {
  for (int passed = 0; group_bytes() > before + kLeftBytes; ++passed) {
    if (passed == kPatienceMs)
      return verdict.broken("memory of ended processes is not free in time");
    usleep(1000);
  }
}

void run(char** arguments, size_t count, const Wish& wish) {
  const uint64_t before = group_bytes();
  static Process processes[kMostProcesses];
  size_t served = 0;
  size_t killed = 0;
  const auto go = [](size_t i) { (void)!write(processes[i].commands, "g", 1); };
  const auto wait = [&](size_t i) { served += wait_for(processes[i]) >= wish.each ? 1 : 0; };
  if (wish.in_turn) {
    for (size_t i = 0; i < count; ++i) {
      processes[i] = start(arguments);
      go(i);
      wait(i);
    }
  } else {
    for (size_t i = 0; i < count; ++i) processes[i] = start(arguments);
    for (size_t i = 0; i < count; ++i) go(i);
    for (size_t i = 0; i < count; ++i) wait(i);
  }
  for (size_t i = 0; i < count; ++i) end(processes[i], &killed);
  if (wish.has_domain) wait_for_rings(before);
  if (killed != 0) verdict.broken("%zu of %zu processes were killed", killed, count);
  if (served + killed != count) verdict.broken("%zu got all that they wanted", served);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t count = probe::argument(argc, argv, 1, 2);
  const size_t rounds = probe::argument(argc, argv, 5, 1);
  Wish wish{};
  wish.each = probe::argument(argc, argv, 2, 300) << 20;
  wish.block = probe::argument(argc, argv, 4, 1024) << 10;
  wish.touched = (probe::argument(argc, argv, 3, 200) << 20) - beyond_4k(wish);
  wish.has_domain = argc > 6 && strcmp(argv[6], "domain") == 0;
  wish.in_turn = argc > 7 && strcmp(argv[7], "in-turn") == 0;
  if (getenv("SHARED_GROUP") != nullptr) serve(wish);
  if (count == 0 || count > kMostProcesses) return probe::kBroken;
  signal(SIGPIPE, SIG_IGN);
  for (size_t round = 0; round < rounds; ++round) run(argv, count, wish);
  return verdict.status();
}
