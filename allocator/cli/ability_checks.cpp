// What the kernel can do, found out by asking it to, each in a child process that may come to harm.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "allocator/cli/check.h"
#include "allocator/cli/system_facts.h"
#include "allocator/options.h"
#include "allocator/os/memory.h"

namespace rdmalloc::cli {
namespace {

constexpr int kMadvPopulateWrite = 23;
constexpr long kSysMseal = 462;

// 0, or the errno of the attempt. The child must not allocate: the parent may have threads.
template <typename Attempt>
int attempt_in_child(Attempt attempt) {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    errno = 0;
    _exit(attempt() ? 0 : errno != 0 ? errno : EINVAL);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

void* map_page() {
  return mmap(nullptr, os::kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

bool try_populate() { return madvise(map_page(), os::kPageSize, kMadvPopulateWrite) == 0; }
bool try_lock() { return mlock(map_page(), os::kPageSize) == 0; }

// Sealed means that munmap is refused: ask for that, not for the call's own word.
bool try_seal() {
  void* page = map_page();
  if (syscall(kSysMseal, page, os::kPageSize, 0) != 0) return false;
  return munmap(page, os::kPageSize) != 0 && errno == EPERM;
}

bool try_prefer_node() {
  const unsigned long nodes = 1;
  return syscall(SYS_mbind, map_page(), os::kPageSize, MPOL_PREFERRED, &nodes, 8 * sizeof nodes,
                 0) == 0;
}

bool try_io_uring() {
  io_uring_params parameters{};
  return syscall(SYS_io_uring_setup, 2, &parameters) >= 0;
}

bool try_userfaultfd() {
  return syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY) >= 0;
}

std::string outcome(int error) {
  return error == 0 ? "works" : std::string("refused: ") + strerror(error);
}

std::string with_sysctl(int error, const char* path, const char* name) {
  const auto value = read_count(path);
  return outcome(error) + (value ? ", " + std::string(name) + " is " + std::to_string(*value) : "");
}

Check populate() {
  const int error = attempt_in_child(try_populate);
  return {
      "populate",
      error == 0 ? Verdict::kOk : Verdict::kNote,
      "MADV_POPULATE_WRITE " + outcome(error),
      "without it a region's pages are touched one by one, and a lack of huge pages shows later",
      {"a kernel of 5.14 or newer   (uname -r tells yours: " + kernel_version() + ")"}};
}

Check lock() {
  const int error = attempt_in_child(try_lock);
  return {"mlock",
          error == 0 ? Verdict::kOk : Verdict::kProblem,
          "mlock of a page " + outcome(error),
          "without it nothing is pinned; the heap works as ordinary memory",
          {"see memlock; in a container: docker run --ulimit memlock=-1 ..."}};
}

Check seal() {
  const int error = attempt_in_child(try_seal);
  Options options;
  options.load();
  const bool missed = error != 0 && options.on(OptionId::seal);
  return {"seal",
          missed ? Verdict::kNote : Verdict::kOk,
          "mseal " + outcome(error),
          "seal=on lets the kernel refuse that regions are unmapped; without mseal it does nothing",
          {"a 64-bit kernel of 6.10 or newer   (uname -r tells yours: " + kernel_version() + ")"}};
}

Check placement() {
  const int error = attempt_in_child(try_prefer_node);
  // A kernel without NUMA has nothing to place.
  const bool forbidden = error == EPERM;
  return {"placement",
          forbidden ? Verdict::kNote : Verdict::kOk,
          "mbind " + outcome(error),
          "without it a region lies on the node of the thread that grows the heap, as first touch "
          "has it",
          {"docker run --cap-add SYS_NICE ...   (its seccomp profile then allows mbind)"}};
}

Check io_uring() {
  const int error = attempt_in_child(try_io_uring);
  return {
      "io_uring",
      error == 0 ? Verdict::kOk : Verdict::kNote,
      with_sysctl(error, "/proc/sys/kernel/io_uring_disabled", "kernel.io_uring_disabled"),
      "without it no region can be registered as a fixed buffer of io_uring",
      {"sudo sysctl kernel.io_uring_disabled=0",
       "docker run --security-opt seccomp=PROFILE.json ...   (one that allows io_uring_setup)"}};
}

Check userfaultfd() {
  const int error = attempt_in_child(try_userfaultfd);
  return {
      "userfaultfd",
      error == 0 ? Verdict::kOk : Verdict::kNote,
      with_sysctl(error, "/proc/sys/vm/unprivileged_userfaultfd", "vm.unprivileged_userfaultfd"),
      "it tells when memory outside the heap is unmapped; without it fewer registrations of such "
      "memory can be kept. The heap itself does not need it",
      {"sudo sysctl vm.unprivileged_userfaultfd=1"}};
}

}  // namespace

std::vector<Check> ability_checks() {
  return {lock(), populate(), seal(), placement(), io_uring(), userfaultfd()};
}

}  // namespace rdmalloc::cli
