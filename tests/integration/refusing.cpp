// Runs a program under a system-call filter that refuses some calls, as an older kernel or a
// container engine does, and kills nothing.
//
//   refusing NAME ... -- PROGRAM ARGUMENTS
//
// NAME: 4.18 | 5.4 | 5.10 | 5.14 | 6.1  what kernels of that version lack
//       container                       what container engines' default profile forbids
//       CALL=ERRNO                      that call, with that errno: EPERM, ENOSYS, EINVAL, ...
// Exit status 77: the kernel installs no filter.
#include <string.h>

#include "tests/integration/probe.h"
#include "tests/integration/system_call_filter.h"

namespace {

constexpr unsigned kMseal = 462;
constexpr unsigned kFutexWaitv = 449;
constexpr unsigned kCachestat = 451;
constexpr unsigned kProcessMadvise = 440;

struct Named {
  const char* name;
  unsigned number;
};
constexpr Named kCalls[] = {{"mlock", SYS_mlock},
                            {"mlock2", SYS_mlock2},
                            {"munlock", SYS_munlock},
                            {"mincore", SYS_mincore},
                            {"madvise", SYS_madvise},
                            {"mremap", SYS_mremap},
                            {"memfd_create", SYS_memfd_create},
                            {"getrusage", SYS_getrusage},
                            {"prlimit64", SYS_prlimit64},
                            {"capget", SYS_capget},
                            {"getcpu", SYS_getcpu},
                            {"mbind", SYS_mbind},
                            {"membarrier", SYS_membarrier},
                            {"sched_getaffinity", SYS_sched_getaffinity},
                            {"sched_yield", SYS_sched_yield},
                            {"flock", SYS_flock},
                            {"fstat", SYS_fstat},
                            {"rt_sigprocmask", SYS_rt_sigprocmask},
                            {"rseq", SYS_rseq},
                            {"mseal", kMseal},
                            {"io_uring_setup", SYS_io_uring_setup},
                            {"userfaultfd", SYS_userfaultfd}};
constexpr Named kErrors[] = {{"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"EINVAL", EINVAL},
                             {"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}, {"EACCES", EACCES}};

// In order of versions: what a kernel older than `since` answers.
struct New {
  int since;  // 1000 * major + minor
  filter::Rule rule;
  unsigned error;
};
constexpr unsigned kDontUnmap = 4 | 2 | 1;  // MREMAP_DONTUNMAP with the flags it requires
constexpr unsigned kUserModeOnly = 1 | O_CLOEXEC | O_NONBLOCK;
constexpr unsigned kNoExecSeal = 1 | 2 | 8;  // MFD_NOEXEC_SEAL with the flags we add
constexpr New kNew[] = {
    {5001, {SYS_io_uring_setup}, ENOSYS},
    {5001, {SYS_io_uring_register}, ENOSYS},
    {5003, {SYS_clone3}, ENOSYS},
    {5004, {SYS_madvise, 2, 20}, EINVAL},  // MADV_COLD
    {5004, {SYS_madvise, 2, 21}, EINVAL},  // MADV_PAGEOUT
    {5006, {SYS_openat2}, ENOSYS},
    {5007, {SYS_mremap, 3, kDontUnmap}, EINVAL},
    {5009, {SYS_close_range}, ENOSYS},
    {5010, {kProcessMadvise}, ENOSYS},
    {5011, {SYS_userfaultfd, 0, kUserModeOnly}, EINVAL},
    {5014, {SYS_madvise, 2, 22}, EINVAL},  // MADV_POPULATE_READ
    {5014, {SYS_madvise, 2, 23}, EINVAL},  // MADV_POPULATE_WRITE
    {5016, {kFutexWaitv}, ENOSYS},
    {6001, {SYS_madvise, 2, 25}, EINVAL},  // MADV_COLLAPSE
    {6003, {SYS_memfd_create, 1, kNoExecSeal}, EINVAL},
    {6005, {kCachestat}, ENOSYS},
    {6010, {kMseal}, ENOSYS},
};

constexpr unsigned kForbidden[] = {
    SYS_mbind,           SYS_get_mempolicy,    SYS_set_mempolicy,     SYS_move_pages,
    SYS_migrate_pages,   SYS_userfaultfd,      SYS_io_uring_setup,    SYS_io_uring_register,
    SYS_perf_event_open, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp};

const Named* find(const Named* from, size_t count, const char* name, size_t length) {
  for (size_t i = 0; i < count; ++i) {
    if (strlen(from[i].name) == length && strncmp(from[i].name, name, length) == 0) return &from[i];
  }
  return nullptr;
}

bool add_call(filter::Program* program, const char* word) {
  const char* const equals = strchr(word, '=');
  if (equals == nullptr) return false;
  const Named* const call =
      find(kCalls, sizeof kCalls / sizeof *kCalls, word, static_cast<size_t>(equals - word));
  const Named* const error =
      find(kErrors, sizeof kErrors / sizeof *kErrors, equals + 1, strlen(equals + 1));
  if (call == nullptr || error == nullptr) return false;
  program->answer({call->number}, SECCOMP_RET_ERRNO | error->number);
  return true;
}

bool add(filter::Program* program, const char* word) {
  if (strcmp(word, "container") == 0) {
    for (const unsigned call : kForbidden) program->answer({call}, SECCOMP_RET_ERRNO | EPERM);
    return true;
  }
  char* end = nullptr;
  const long major = strtol(word, &end, 10);
  if (end == word || *end != '.') return add_call(program, word);
  const int version = static_cast<int>(major * 1000 + strtol(end + 1, nullptr, 10));
  for (const New& one : kNew) {
    if (one.since > version) program->answer(one.rule, SECCOMP_RET_ERRNO | one.error);
  }
  return true;
}

// Whether the rest of the system can live with it.
bool starts_without_us(filter::Program& program) {
  const pid_t child = probe::start_child([&] {
    char name[] = "true";
    char* const arguments[] = {name, nullptr};
    char* const nothing[] = {nullptr};
    if (!program.install(false)) return true;
    execve("/bin/true", arguments, nothing);
    return false;
  });
  return probe::end_of(child).exited_well();
}

}  // namespace

int main(int argc, char** argv) {
  filter::Program program(SECCOMP_RET_ALLOW);
  int i = 1;
  for (; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    if (!add(&program, argv[i])) {
      fprintf(stderr, "refusing: unknown: %s\n", argv[i]);
      return 2;
    }
  }
  if (i + 1 >= argc) return 2;
  if (!starts_without_us(program)) probe::skip("libc itself does not start a program then");
  if (!program.install(false)) probe::skip("the kernel installs no filter");
  execvp(argv[i + 1], argv + i + 1);
  perror(argv[i + 1]);
  return 2;
}
