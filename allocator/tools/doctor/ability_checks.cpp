// The kernel's abilities, as doctor reports them.
#include <cerrno>
#include <cstring>

#include "allocator/limits/options.h"
#include "allocator/tools/doctor/check.h"
#include "allocator/tools/info/kernel_abilities.h"
#include "allocator/tools/info/system_facts.h"

namespace rdmalloc::cli {
namespace {

std::string outcome(int error) {
  return error == 0 ? "works" : std::string("refused: ") + strerror(error);
}

std::string with_sysctl(int error, const char* path, const char* name) {
  const auto value = read_count(path);
  return outcome(error) + (value ? ", " + std::string(name) + " is " + std::to_string(*value) : "");
}

Check populate() {
  const int error = populates().error;
  return {
      "populate",
      error == 0 ? Verdict::kOk : Verdict::kNote,
      "MADV_POPULATE_WRITE " + outcome(error),
      "without it a region's pages are touched one by one, and a lack of huge pages shows later",
      {"a kernel of 5.14 or newer   (uname -r tells yours: " + kernel_version() + ")"}};
}

Check lock() {
  const int error = locks_on_fault().error;
  return {"mlock",
          error == 0 ? Verdict::kOk : Verdict::kProblem,
          "mlock of a page " + outcome(error),
          "without it nothing is pinned; the heap works as ordinary memory",
          {"see memlock; in a container: docker run --ulimit memlock=-1 ..."}};
}

Check seal() {
  const int error = seals().error;
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
  const int error = places().error;
  // A kernel without NUMA has nothing to place.
  const bool forbidden = error == EPERM;
  return {"placement",
          forbidden ? Verdict::kNote : Verdict::kOk,
          "mbind " + outcome(error),
          "without it a region lies where it is first touched",
          {"docker run --cap-add SYS_NICE ...   (its seccomp profile then allows mbind)"}};
}

Check copy_on_fork() {
  const Ability ability = copies_pins_at_fork();
  Check check;
  check.name = "copy-on-fork";
  // Determined by an io_uring registration.
  const bool is_unknown = !ability.works() && ability.error != ENOTSUP;
  check.verdict = ability.works() || is_unknown ? Verdict::kOk : Verdict::kNote;
  check.found = ability.works() ? "registered memory stays registered in a process that forks"
                : is_unknown    ? "unknown: io_uring is " + outcome(ability.error)
                                : "missing: fork takes registered pages away from the process";
  check.meaning = "without it " + ability.without;
  check.cures = {"a kernel of 5.12 or newer   (uname -r tells yours: " + kernel_version() + ")",
                 "posix_spawn or vfork, which copy nothing, instead of fork"};
  return check;
}

Check moving() {
  const Ability ability = moves_locked_pages();
  return {"moving",
          ability.works() ? Verdict::kOk : Verdict::kNote,
          "mremap of a locked page " + outcome(ability.error),
          "without it " + ability.without,
          {"a newer kernel   (uname -r tells yours: " + kernel_version() + ")"}};
}

Check io_uring() {
  const int error = has_io_uring().error;
  return {
      "io_uring",
      error == 0 ? Verdict::kOk : Verdict::kNote,
      with_sysctl(error, "/proc/sys/kernel/io_uring_disabled", "kernel.io_uring_disabled"),
      "without it no region can be registered as a fixed buffer of io_uring",
      {"sudo sysctl kernel.io_uring_disabled=0",
       "docker run --security-opt seccomp=PROFILE.json ...   (one that allows io_uring_setup)"}};
}

Check userfaultfd() {
  const int error = has_userfaultfd().error;
  return {
      "userfaultfd",
      error == 0 ? Verdict::kOk : Verdict::kNote,
      with_sysctl(error, "/proc/sys/vm/unprivileged_userfaultfd", "vm.unprivileged_userfaultfd"),
      "it reports when memory outside the heap is unmapped; without it fewer registrations of such "
      "memory can be kept. The heap itself does not need it",
      {"sudo sysctl vm.unprivileged_userfaultfd=1"}};
}

}  // namespace

std::vector<Check> ability_checks() {
  return {lock(), populate(),  copy_on_fork(), moving(),
          seal(), placement(), io_uring(),     userfaultfd()};
}

}  // namespace rdmalloc::cli
