#include "allocator/tools/trace/recorded_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "allocator/os/clock.h"
#include "allocator/tools/child.h"
#include "allocator/tools/interrupts.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"
#include "allocator/trace/raw_writer.h"

namespace rdmalloc::cli {
namespace {

constexpr const char* kReserve = "/reserve";

std::atomic<pid_t> program_running{0};

void pass_on(int signal) {
  const pid_t program = program_running.load();
  if (program > 0) kill(program, signal);
}

// During its lifetime, signals are left to the program.
class SignalsAside {
 public:
  SignalsAside() {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    for (const int signal : {SIGINT, SIGQUIT}) replace(signal, action);
    action.sa_handler = pass_on;
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGTERM, SIGHUP}) replace(signal, action);
  }
  ~SignalsAside() { undo(); }
  SignalsAside(const SignalsAside&) = delete;
  SignalsAside& operator=(const SignalsAside&) = delete;

  void undo() const {
    for (size_t i = 0; i < count_; ++i) sigaction(before_[i].first, &before_[i].second, nullptr);
  }

 private:
  void replace(int signal, const struct sigaction& action) {
    before_[count_].first = signal;
    sigaction(signal, &action, &before_[count_++].second);
  }

  std::array<std::pair<int, struct sigaction>, 4> before_{};
  size_t count_ = 0;
};

std::string preloads_of(const RecordedRun& run) {
  if (run.folder.empty()) return run.preloads;
  return run.preloads.empty() ? run.recorder : run.recorder + ":" + run.preloads;
}

[[noreturn]] void become(const RecordedRun& run, int pipe, const SignalsAside& signals) {
  if (!run.folder.empty()) {
    setenv(trace::kFolderVariable, run.folder.c_str(), 1);
    setenv(trace::kLimitVariable, std::to_string(run.limit).c_str(), 1);
  }
  set_preloads(preloads_of(run));
  if (run.output >= 0) dup2(run.output, STDOUT_FILENO);
  const std::vector<char*> arguments = exec_list(run.command);
  signals.undo();
  execv(run.program.c_str(), arguments.data());
  const int error = errno;
  (void)!write(pipe, &error, sizeof error);
  _exit(kExitRefused);
}

}  // namespace

RawFolder::RawFolder(const std::string& trace) {
  std::string path = trace + ".raw-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    throw Refusal("cannot write a trace to " + trace + ": " + strerror(errno) +
                  "; name another file with -o");
  }
  path_ = path;
  keep_space();
}

// A trace is far smaller than its raw files, but a disk that the recorder has filled has no space
// even for that.
void RawFolder::keep_space() {
  constexpr uint64_t kMost = 16 << 20;
  constexpr uint64_t kShare = 8;  // of what is free
  struct statvfs disk {};
  if (statvfs(path_.c_str(), &disk) != 0) return;
  const uint64_t bytes = std::min(kMost, disk.f_bavail * disk.f_frsize / kShare);
  const int fd = open((path_ + kReserve).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  // Above a limit on file sizes the kernel would send a signal.
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  (void)!fallocate(fd, 0, 0, static_cast<off_t>(std::min<uint64_t>(bytes, limit.rlim_cur)));
  close(fd);
}

void RawFolder::give_space() const { unlink((path_ + kReserve).c_str()); }

RawFolder::~RawFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

RunEnd run_recorded(const RecordedRun& run) {
  Pipe told;
  if (!told.is_open()) throw Refusal(std::string("pipe: ") + strerror(errno));
  const SignalsAside signals;
  const uint64_t start = os::now_ns();
  const pid_t child = fork();
  if (child < 0) throw Refusal(std::string("cannot start a process: ") + strerror(errno));
  if (child == 0) become(run, told.in.get(), signals);
  program_running = child;
  told.in.shut();
  const std::string failure = read_all(told.out.get());
  RunEnd end;
  rusage usage{};  // of the program: not of children that it did not wait for
  end.status = wait_for(child, &usage);
  end.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  program_running = 0;
  end.wall_s = static_cast<double>(os::now_ns() - start) * 1e-9;
  int error = 0;
  if (failure.size() != sizeof error) return end;
  memcpy(&error, failure.data(), sizeof error);
  throw Refusal(run.program + ": " + strerror(error),
                error == ENOENT ? kExitNotFound : kExitNotExecutable);
}

int end_as(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  // Dump no core: it would overwrite one that the program left.
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);
  return die_of(WTERMSIG(status));
}

double cost_of_a_call(const RecordedRun& like, bool threads) {
  std::array<double, 2> ns{};
  for (const bool recorded : {false, true}) {
    Pipe told;
    if (!told.is_open()) return 0;
    RecordedRun run = like;
    run.program = own_path();
    run.command = {"rdmalloc", "trace", "cost"};
    if (threads) run.command.emplace_back("--threads");
    run.output = told.in.get();
    if (!recorded) run.folder.clear();
    const RunEnd end = run_recorded(run);
    told.in.shut();
    const std::string text = read_all(told.out.get());
    if (end.status != 0 || text.empty()) return 0;
    ns[recorded ? 1 : 0] = strtod(text.c_str(), nullptr);
  }
  return ns[1] > ns[0] ? (ns[1] - ns[0]) * 1e-9 : 0;
}

}  // namespace rdmalloc::cli
