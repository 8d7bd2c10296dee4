#include "bench/support/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>

extern char** environ;

namespace rdmalloc::bench {
namespace {

std::string name_of(const std::string& entry) { return entry.substr(0, entry.find('=') + 1); }

void set(std::vector<std::string>& environment, const std::string& entry) {
  std::erase_if(environment,
                [&](const std::string& old) { return old.starts_with(name_of(entry)); });
  environment.push_back(entry);
}

std::vector<std::string> environment_for(const Allocator& allocator,
                                         const std::vector<std::string>& more) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) set(environment, *entry);
  set(environment, "LD_PRELOAD=" + allocator.library);
  for (const std::string& entry : allocator.settings) set(environment, entry);
  const char* tried = getenv("BENCH_OURS_ENV");
  if (tried != nullptr && allocator.name == ours().name) {
    std::istringstream entries(tried);
    for (std::string entry; entries >> entry;) set(environment, entry);
  }
  for (const std::string& entry : more) set(environment, entry);
  return environment;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

// Writes a file's contents to a child's standard input, from a separate thread, so that the child
// cannot wait for us while we wait for its output.
class Feeder {
 public:
  explicit Feeder(const std::string& path) {
    if (path.empty() || pipe2(ends_, O_CLOEXEC) != 0) return;
    std::ifstream file(path, std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(file), {});
  }
  ~Feeder() {
    if (ends_[0] >= 0) close(ends_[0]);
    if (thread_.joinable()) {
      thread_.join();
    } else if (ends_[1] >= 0) {
      close(ends_[1]);
    }
  }
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  // The child's end of the pipe; -1 if there is nothing to feed.
  int end() const { return ends_[0]; }

  // Call once the child has its end. Then closes ours: if another copy stayed open, a child that
  // ends early would leave the thread blocked.
  void start() {
    if (ends_[0] < 0) return;
    close(std::exchange(ends_[0], -1));
    thread_ = std::thread([this] { write_all(); });
  }

 private:
  void write_all() {
    // A child that ends early raises SIGPIPE here. Blocked in this thread only, because children
    // inherit the mask.
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
    for (size_t done = 0; done < text_.size();) {
      const ssize_t wrote = write(ends_[1], text_.data() + done, text_.size() - done);
      if (wrote <= 0) break;
      done += static_cast<size_t>(wrote);
    }
    close(ends_[1]);
  }

  int ends_[2] = {-1, -1};
  std::string text_;
  std::thread thread_;
};

void wait_for(pid_t pid, Outcome& outcome) {
  int status = 0;
  rusage usage{};
  wait4(pid, &status, 0, &usage);
  outcome.ended_s = std::chrono::duration<double>(  // this is CLOCK_MONOTONIC
                        std::chrono::steady_clock::now().time_since_epoch())
                        .count();
  outcome.started = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  outcome.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  outcome.peak_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
}

}  // namespace

double Outcome::number(const std::string& key) const {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(key);
    if (at == std::string::npos) continue;
    const size_t digits = line.find_first_of("0123456789", at + key.size());
    if (digits != std::string::npos) return strtod(line.c_str() + digits, nullptr);
  }
  return -1;
}

Outcome run(const std::vector<std::string>& command, const Allocator& allocator,
            const std::vector<std::string>& environment, const std::string& piped) {
  Outcome outcome;
  const std::vector<std::string> entries = environment_for(allocator, environment);
  std::vector<char*> argv = pointers(command);
  std::vector<char*> envp = pointers(entries);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;
  Feeder feeder(piped);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (feeder.end() >= 0) posix_spawn_file_actions_adddup2(&actions, feeder.end(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const auto start = std::chrono::steady_clock::now();
  pid_t pid = 0;
  const int refused = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  close(ends[1]);
  posix_spawn_file_actions_destroy(&actions);
  if (refused == 0) {
    feeder.start();
    outcome.output = read_all(ends[0]);
    wait_for(pid, outcome);
  }
  close(ends[0]);
  outcome.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

std::string find_program(const std::string& name) {
  const char* path = getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

std::vector<std::string> sibling(const std::string& program,
                                 const std::vector<std::string>& arguments) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> command{self.parent_path() / program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace rdmalloc::bench
