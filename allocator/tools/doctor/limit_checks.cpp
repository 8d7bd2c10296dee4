// The limits of this process: locked memory, rights, address space, its control group's memory.
#include <linux/capability.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allocator/limits/budget.h"
#include "allocator/limits/options.h"
#include "allocator/os/limits.h"
#include "allocator/tools/doctor/check.h"
#include "allocator/tools/info/system_facts.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

constexpr uint64_t kLeastShare = 100;  // of memory: one hundredth

// Regions take a mapping or two each, so a small limit concerns the program, not us.
constexpr uint64_t kUsualMapCount = 65530;
constexpr uint64_t kSmallAddressSpace = uint64_t{1} << 30;

std::vector<std::string> ways_to_raise_memlock(const os::LockLimit& limit) {
  std::vector<std::string> ways;
  if (limit.hard > limit.soft) {
    const bool unlimited = limit.hard == os::kNoLimit;
    ways.push_back("ulimit -l " + (unlimited ? "unlimited" : std::to_string(limit.hard >> 10)) +
                   "   (this shell)");
  }
  ways.insert(ways.end(),
              {"printf '* - memlock unlimited\\n' | sudo tee /etc/security/limits.d/90-memlock.conf"
               "   (then log in again)",
               "LimitMEMLOCK=infinity   (in a systemd unit; also slurmd's)",
               "AmbientCapabilities=CAP_IPC_LOCK   (in a systemd unit; no limit applies then)",
               "docker run --ulimit memlock=-1 ...   (or --cap-add IPC_LOCK, running as root)",
               "sudo setcap cap_ipc_lock=ep PROGRAM   (only for one linked with -lrdmalloc: ld.so "
               "preloads nothing into it)"});
  return ways;
}

Check memlock() {
  Options options;
  options.load();
  Budget budget;
  budget.boot_and_look(options);
  const os::LockLimit limit = os::lock_limit();
  Check check{
      .name = "memlock",
      .found = "soft " + size_text(limit.soft) + ", hard " + size_text(limit.hard) +
               (limit.unlimited_by_right ? ", lifted by CAP_IPC_LOCK" : "") + ": " +
               size_text(budget.pin_limit().bytes()) + " may be pinned, " +
               format("%.3g%% of memory, limited by ",
                      100.0 * static_cast<double>(budget.pin_limit().bytes()) /
                          static_cast<double>(budget.memory().total())) +
               name(budget.pin_limit().limited_by()),
      .meaning =
          "memory beyond the limit is neither pinned nor registered, and lookups say so; each "
          "registration counts against the same limit again"};
  if (budget.pin_limit().limited_by() != LimitedBy::kMemlock) return check;
  const bool little = budget.pin_limit().bytes() < kTooLittle ||
                      budget.pin_limit().bytes() < budget.memory().total() / kLeastShare;
  check.verdict = little ? Verdict::kProblem : Verdict::kNote;
  check.cures = ways_to_raise_memlock(limit);
  return check;
}

Check capabilities() {
  const bool lock = has_capability(CAP_IPC_LOCK);
  const bool resource = has_capability(CAP_SYS_RESOURCE);
  Check check{
      .name = "capabilities",
      .found = std::string("CAP_IPC_LOCK ") + (lock ? "yes" : "no") + ", CAP_SYS_RESOURCE " +
               (resource ? "yes" : "no"),
      .meaning =
          "CAP_IPC_LOCK lifts the limit on locked memory, CAP_SYS_RESOURCE lets a process raise "
          "its "
          "hard limit",
      .cures = {"docker run --cap-add IPC_LOCK ...",
                "sudo setpriv --inh-caps +ipc_lock --ambient-caps +ipc_lock rdmalloc run PROGRAM"}};
  if (geteuid() == 0 && !lock) {
    check.verdict = Verdict::kNote;
    check.meaning = "root without CAP_IPC_LOCK, as in a container, is limited like anybody else";
  }
  return check;
}

Check control_group() {
  const uint64_t limit = os::cgroup().max;
  const std::string text = read_text("/proc/self/cgroup").value_or("");
  Check check{.name = "control group"};
  if (text.empty()) {
    check.found = "none";
    return check;
  }
  const bool version1 = text.find(":memory:") != std::string::npos;
  check.found =
      std::string("version ") + (version1 ? "1" : "2") + ", memory limit " + size_text(limit);
  check.meaning =
      "shares such as 80% are of this limit; populating more than is left invokes the OOM killer, "
      "so rdmalloc stops pinning before that";
  check.cures = {"systemd-run --user --scope -p MemoryMax=32G rdmalloc run PROGRAM",
                 "docker run --memory 32g ...", "srun --mem=32G ..."};
  if (limit == os::kNoLimit) return check;
  const uint64_t left = os::memory_left().to_populate;
  check.found += ", " + size_text(left) + " left";
  if (left < limit / 4) check.verdict = Verdict::kNote;
  if (left < kTooLittle) check.verdict = Verdict::kProblem;
  return check;
}

Check address_space() {
  const uint64_t left = os::address_space_left();
  Check check{.name = "address space",
              .found = left == os::kNoLimit ? "unlimited" : size_text(left) + " left (RLIMIT_AS)",
              .meaning =
                  "the window is one reserved range: it is halved until it fits, and malloc "
                  "refuses what it "
                  "cannot hold",
              .cures = {"ulimit -v unlimited   (this shell)"}};
  if (left != os::kNoLimit) check.verdict = Verdict::kNote;
  if (left < kSmallAddressSpace) check.verdict = Verdict::kProblem;
  return check;
}

Check map_count() {
  const auto limit = read_count("/proc/sys/vm/max_map_count");
  Check check{
      .name = "mappings",
      .found = limit ? "vm.max_map_count is " + std::to_string(*limit) : "vm.max_map_count unknown",
      .meaning = "each region takes one or two mappings, and there are tens of regions",
      .cures = {"sudo sysctl vm.max_map_count=" + std::to_string(kUsualMapCount)}};
  if (limit && *limit < kUsualMapCount) check.verdict = Verdict::kNote;
  return check;
}

}  // namespace

std::vector<Check> limit_checks() {
  return {memlock(), capabilities(), control_group(), address_space(), map_count()};
}

}  // namespace rdmalloc::cli
