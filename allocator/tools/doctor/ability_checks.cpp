// The kernel's abilities, as doctor reports them.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "allocator/limits/options.h"
#include "allocator/tools/doctor/check.h"
#include "allocator/tools/info/kernel_abilities.h"
#include "allocator/tools/info/system_facts.h"

namespace rdmalloc::cli {
namespace {

std::string outcome(int error) {
  return error == 0 ? "works" : std::string("refused: ") + strerror(error);
}

// Adds the value of a variable such as "vm.overcommit_memory" to what was found.
Check with_sysctl(Check check, const std::string& name) {
  std::string path = "/proc/sys/" + name;
  std::ranges::replace(path, '.', '/');
  const auto value = read_count(path);
  if (value) check.found += ", " + name + " is " + std::to_string(*value);
  return check;
}

// `call` is what was tried.
Check check_of(const Ability& ability, const std::string& call, Verdict otherwise,
               std::vector<std::string> cures) {
  return {ability.name, ability.works() ? Verdict::kOk : otherwise,
          call + " " + outcome(ability.error), "without it " + ability.without, std::move(cures)};
}

std::string newer_kernel(const Ability& ability) {
  return "a kernel of " + ability.since + " or newer   (uname -r tells yours: " + kernel_version() +
         ")";
}

Check populate(const Ability& ability) {
  return check_of(ability, "MADV_POPULATE_WRITE", Verdict::kNote, {newer_kernel(ability)});
}

Check lock(const Ability& ability) {
  return check_of(ability, "mlock of a page", Verdict::kProblem,
                  {"see memlock; in a container: docker run --ulimit memlock=-1 ..."});
}

Check seal(const Ability& ability) {
  Options options;
  options.load();
  const Verdict missed = options.on(OptionId::seal) ? Verdict::kNote : Verdict::kOk;
  Check check = check_of(ability, "mseal", missed, {newer_kernel(ability) + ", of 64 bits"});
  check.name = "seal";
  return check;
}

Check placement(const Ability& ability) {
  // A kernel without NUMA has nothing to place.
  const Verdict otherwise = ability.error == EPERM ? Verdict::kNote : Verdict::kOk;
  return check_of(ability, "mbind", otherwise,
                  {"docker run --cap-add SYS_NICE ...   (its seccomp profile then allows mbind)"});
}

Check copy_on_fork(const Ability& ability) {
  // Determined by an io_uring registration.
  const bool is_unknown = !ability.works() && ability.error != ENOTSUP;
  Check check = check_of(
      ability, "", is_unknown ? Verdict::kOk : Verdict::kNote,
      {newer_kernel(ability), "posix_spawn or vfork, which copy nothing, instead of fork"});
  check.found = ability.works() ? "registered memory stays registered in a process that forks"
                : is_unknown    ? "unknown: io_uring is " + outcome(ability.error)
                                : "missing: fork takes registered pages away from the process";
  return check;
}

Check moving(const Ability& ability) {
  Check check = check_of(ability, "mremap of a locked page", Verdict::kNote,
                         {"a newer kernel   (uname -r tells yours: " + kernel_version() + ")"});
  check.name = "moving";
  return check;
}

Check io_uring(const Ability& ability) {
  Check check = check_of(
      ability, "io_uring", Verdict::kNote,
      {"sudo sysctl kernel.io_uring_disabled=0",
       "docker run --security-opt seccomp=PROFILE.json ...   (one that allows io_uring_setup)"});
  return with_sysctl(std::move(check), "kernel.io_uring_disabled");
}

Check userfaultfd(const Ability& ability) {
  Check check = check_of(ability, "userfaultfd", Verdict::kNote,
                         {"sudo sysctl vm.unprivileged_userfaultfd=1"});
  return with_sysctl(std::move(check), "vm.unprivileged_userfaultfd");
}

}  // namespace

std::vector<Check> ability_checks() {
  const std::map<std::string, Check (*)(const Ability&)> explain = {{"mlock", lock},
                                                                    {"populate", populate},
                                                                    {"copy-on-fork", copy_on_fork},
                                                                    {"move", moving},
                                                                    {"mseal", seal},
                                                                    {"placement", placement},
                                                                    {"io_uring", io_uring},
                                                                    {"userfaultfd", userfaultfd}};
  std::vector<Check> checks;
  for (const Ability& ability : kernel_abilities()) {
    checks.push_back(explain.at(ability.name)(ability));
  }
  return checks;
}

}  // namespace rdmalloc::cli
