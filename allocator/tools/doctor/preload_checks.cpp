// Whether the library is installed and takes over a program's heap, and how it monitors other
// memory.
#include <sys/auxv.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "allocator/tools/doctor/check.h"
#include "allocator/tools/doctor/probe.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"

namespace rdmalloc::cli {
namespace {

Check library(std::string* path) {
  Check check{.name = "library"};
  try {
    *path = find_library();
  } catch (const Refusal& refusal) {
    check.verdict = Verdict::kProblem;
    check.found = refusal.what();
    return check;
  }
  check.found = *path;
  check.cures = {"install rdmalloc in a folder that you may read, on a mount without noexec"};
  struct statvfs mount {};
  const bool no_exec = statvfs(path->c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0;
  const bool unreadable = access(path->c_str(), R_OK) != 0;
  if (no_exec) check.meaning = "it lies on a mount with noexec: ld.so cannot load it";
  if (unreadable) check.meaning = "you may not read it: ld.so cannot load it";
  if (no_exec || unreadable) check.verdict = Verdict::kProblem;
  return check;
}

Check takeover(const ProbeResult& probe) {
  Check check{
      .name = "preload",
      .meaning =
          "programs that are statically linked or gain rights when executed cannot be preloaded: "
          "rdmalloc run says so for each",
      .cures = {"link such a program with -lrdmalloc"}};
  if (probe.failure.empty()) {
    check.found = std::to_string(probe.in_window) + " of " + std::to_string(probe.asked) +
                  " allocations of a program lie in the window";
  } else {
    check.found = probe.failure;
  }
  if (probe.took()) return check;
  check.verdict = Verdict::kProblem;
  check.meaning = "a program started under the library does not get its heap from it";
  check.cures = {"LD_DEBUG=libs rdmalloc run -- true   (what ld.so does)",
                 "env | grep -e RDMALLOC_ -e LD_ -e MALLOC_CONF   (what may be in the way)"};
  return check;
}

// The monitor that a program gets in the current environment.
Check monitor(const ProbeResult& probe) {
  Check check{
      .name = "monitor",
      .found = probe.monitor + ": " + probe.monitor_why,
      .meaning =
          "rdm_get keeps foreign memory registered until a monitor sees it change. userfaultfd "
          "sees "
          "all changes by this process; interposed functions see those made through libc; with "
          "none, "
          "nothing is kept",
      .cures = {
          "sudo sysctl vm.unprivileged_userfaultfd=1",
          "docker run --security-opt seccomp=PROFILE.json ...   (one that allows userfaultfd)"}};
  if (const char* const asked = getenv("RDMALLOC_MONITOR")) {
    check.cures = {"unset RDMALLOC_MONITOR   (it is " + std::string(asked) + ")"};
  }
  if (probe.monitor != "userfaultfd") check.verdict = Verdict::kNote;
  return check;
}

}  // namespace

std::vector<Check> preload_checks() {
  std::string path;
  std::vector<Check> checks{library(&path)};
  if (path.empty()) return checks;
  const ProbeResult probe = run_probe(path);
  checks.push_back(takeover(probe));
  if (probe.failure.empty()) checks.push_back(monitor(probe));
  return checks;
}

}  // namespace rdmalloc::cli
