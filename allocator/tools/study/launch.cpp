#include "allocator/tools/study/launch.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

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

std::vector<std::string> environment_of(const Launch& launch) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : launch.variables) {
    all[name] = value;
    if (name == "LD_PRELOAD" && value.empty()) all.erase(name);
  }
  std::vector<std::string> words;
  words.reserve(all.size());
  for (const auto& [name, value] : all) words.push_back(name + "=" + value);
  return words;
}

// What the child reports on the pipe, which closes by itself when the exec succeeds.
struct Word {
  uint64_t start_ns;
  int error;
};

struct Child {
  const char* program;
  char* const* arguments;
  char* const* environment;
  std::array<int, 3> streams;
  int pipe;
  pid_t parent;
};

// Between fork and exec: system calls only.
[[noreturn]] void become(const Child& child, const Interrupts& interrupts) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != child.parent) _exit(kExitRefused);
  for (int i = 0; i < 3; ++i) dup2(child.streams[static_cast<size_t>(i)], i);
  interrupts.undo();
  Word word{os::now_ns(), 0};
  if (write(child.pipe, &word, sizeof(word)) != sizeof(word)) _exit(kExitRefused);
  execve(child.program, child.arguments, child.environment);
  word.error = errno;
  if (write(child.pipe, &word, sizeof(word)) != sizeof(word)) _exit(kExitRefused);
  _exit(kExitNotExecutable);
}

}  // namespace

RunningProgram::RunningProgram(const Launch& launch, const Interrupts& interrupts) {
  const Descriptor input = open_stream(launch.input, O_RDONLY);
  const Descriptor output = open_stream(launch.output, O_WRONLY | O_CREAT | O_TRUNC);
  const Descriptor errors = open_stream(launch.errors, O_WRONLY | O_CREAT | O_TRUNC);
  const std::vector<std::string> variables = environment_of(launch);
  const std::vector<char*> arguments = exec_list(launch.command);
  const std::vector<char*> environment = exec_list(variables);
  Pipe told;
  if (!told.is_open()) throw Refusal(std::string("pipe: ") + strerror(errno));
  const Child child{launch.program.c_str(), arguments.data(),
                    environment.data(),     {input.get(), output.get(), errors.get()},
                    told.in.get(),          getpid()};
  pid_ = fork();
  if (pid_ == 0) become(child, interrupts);
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
