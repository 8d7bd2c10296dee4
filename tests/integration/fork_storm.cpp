// Threads fork, spawn and exec in every possible way while others allocate and the heap grows. No
// child may find a lock that nobody will release, and none may crash.
//
//   fork_storm SECONDS
#include <spawn.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/probe.h"

extern char** environ;

namespace {

constexpr int kThreads = 8;

probe::Verdict verdict;
std::atomic<bool> done{false};
std::atomic<uint64_t> children{0};

void churn(uint64_t seed, size_t operations) {
  probe::Random random(seed);
  void* objects[32] = {};
  for (size_t i = 0; i < operations; ++i) {
    void*& object = objects[random.below(32)];
    if (object != nullptr) free(object);
    const size_t size = random.size_between(8, 1 << 18);
    object = malloc(size);
    if (object != nullptr) memset(object, 1, size < 256 ? size : 256);
  }
  for (void* object : objects) free(object);
}

void expect_clean(pid_t pid, const char* who) {
  verdict.expect_good_end(who, probe::end_of(pid));
  ++children;
}

void fork_child(uint64_t seed) {
  const pid_t child = probe::start_child([seed] {
    churn(seed, 300);
    std::thread([seed] { churn(seed + 1, 100); }).join();
    if (seed % 4 != 0) return 0;
    return probe::run_child([seed] { churn(seed, 50); }).status();
  });
  expect_clean(child, "a child of fork");
}

void spawn_child() {
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t pid = -1;
  if (posix_spawnp(&pid, name, nullptr, nullptr, arguments, environ) != 0) pid = -1;
  expect_clean(pid, "a child of posix_spawn");
}

void vfork_child() {
  const pid_t pid = vfork();
  if (pid == 0) {
    execlp("true", "true", nullptr);
    _exit(127);
  }
  expect_clean(pid, "a child of vfork and exec");
}

void popen_child() {
  FILE* out = popen("echo heard", "r");
  char line[16] = {};
  if (out == nullptr || fgets(line, sizeof line, out) == nullptr || pclose(out) != 0) {
    verdict.broken("popen failed");
  }
  if (strcmp(line, "heard\n") != 0) verdict.broken("popen: nothing heard");
  ++children;
}

void work(uint64_t seed) {
  while (!done && verdict.count() == 0) {
    ++seed;
    switch (seed % 6) {
      case 0:
        spawn_child();
        break;
      case 1:
        vfork_child();
        break;
      case 2:
        popen_child();
        break;
      case 3:
        if (system("exit 0") != 0) verdict.broken("system failed");
        break;
      default:
        fork_child(seed);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seconds = probe::argument(argc, argv, 1, 5);
  alarm(static_cast<unsigned>(seconds) + 60);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(work, static_cast<uint64_t>(i) * 1000);
    threads.emplace_back([i] {
      for (uint64_t n = 0; !done; ++n) churn(n * 100 + static_cast<uint64_t>(i), 200);
    });
  }
  // The heap grows meanwhile, so that a fork also meets the growth lock.
  std::vector<void*> grown;
  const time_t end = time(nullptr) + static_cast<time_t>(seconds);
  while (time(nullptr) < end && verdict.count() == 0) {
    if (grown.size() < 64) grown.push_back(malloc(1 << 20));
    usleep(20000);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  for (void* object : grown) free(object);
  if (probe::library().loaded() && probe::stats().pinned_bytes != probe::locked_bytes()) {
    verdict.broken("the parent's books differ from the kernel's");
  }
  printf("%lu children\n", children.load());
  return verdict.status();
}
