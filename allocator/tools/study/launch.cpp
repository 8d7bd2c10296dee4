#include "allocator/tools/study/launch.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "allocator/os/clock.h"
#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"

namespace rdmalloc::cli::study {
namespace {

// For one of the child's standard streams.
Descriptor open_stream(const std::string& path, int flags) {
  Descriptor stream(open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (stream.get() < 0) throw Refusal(path + ": " + strerror(errno), kExitProblem);
  return stream;
}

// What the child reports on the pipe, which closes by itself when the exec succeeds.
struct Word {
  uint64_t start_ns;
  int error;
};

// The parent has no other thread when it forks, so this may allocate.
[[noreturn]] void become(const Launch& launch, const std::array<int, 3>& streams, int pipe,
                         pid_t parent, const Interrupts& interrupts) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(kExitRefused);
  for (int i = 0; i < 3; ++i) dup2(streams[static_cast<size_t>(i)], i);
  for (const auto& [name, value] : launch.variables) setenv(name.c_str(), value.c_str(), 1);
  set_preloads(launch.preloads);
  const std::vector<char*> arguments = exec_list(launch.command);
  interrupts.undo();
  Word word{os::now_ns(), 0};
  if (write(pipe, &word, sizeof(word)) != sizeof(word)) _exit(kExitRefused);
  execv(launch.program.c_str(), arguments.data());
  word.error = errno;
  if (write(pipe, &word, sizeof(word)) != sizeof(word)) _exit(kExitRefused);
  _exit(kExitNotExecutable);
}

}  // namespace

RunningProgram::RunningProgram(const Launch& launch, const Interrupts& interrupts) {
  const Descriptor input = open_stream(launch.input, O_RDONLY);
  const Descriptor output = open_stream(launch.output, O_WRONLY | O_CREAT | O_TRUNC);
  const Descriptor errors = open_stream(launch.errors, O_WRONLY | O_CREAT | O_TRUNC);
  Pipe told;
  if (!told.is_open()) throw Refusal(std::string("pipe: ") + strerror(errno));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    become(launch, {input.get(), output.get(), errors.get()}, told.in.get(), parent, interrupts);
  }
  const int fork_error = errno;
  told.in.shut();
  Word word{0, 0};
  Word last{0, 0};
  while (pid_ > 0 && read(told.out.get(), &word, sizeof(word)) == sizeof(word)) last = word;
  if (pid_ < 0) throw Refusal(std::string("fork: ") + strerror(fork_error));
  start_ns_ = last.start_ns;
  if (start_ns_ == 0 || last.error != 0) {
    wait_for(pid_);
    throw Refusal(launch.program + ": " + strerror(last.error),
                  last.error == ENOENT ? kExitNotFound : kExitNotExecutable);
  }
  ended_descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  watcher_ = std::thread([this] { watch(); });
}

// Runs in a thread of its own, which nothing delays: a sample may take longer than a whole program.
void RunningProgram::watch() {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  end_ns_ = os::now_ns();
  const uint64_t one = 1;
  (void)!write(ended_descriptor_, &one, sizeof(one));
}

RunningProgram::~RunningProgram() {
  if (!has_ended()) kill(pid_, SIGKILL);
  watcher_.join();
  close(ended_descriptor_);
}

}  // namespace rdmalloc::cli::study
