#include "allocator/tools/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace rdmalloc::cli {

void Descriptor::shut() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  out = Descriptor(ends[0]);
  in = Descriptor(ends[1]);
}

std::vector<char*> exec_list(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  // exec's type says that it may write to them: it does not.
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string read_all(int fd) {
  std::string all;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(piece.data(), static_cast<size_t>(got));
  }
}

std::string read_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.get() < 0 ? "" : read_all(file.get());
}

std::string preloads() {
  const char* const value = getenv("LD_PRELOAD");
  return value != nullptr ? value : "";
}

void set_preloads(const std::string& value) {
  if (value.empty()) {
    unsetenv("LD_PRELOAD");
  } else {
    setenv("LD_PRELOAD", value.c_str(), 1);
  }
}

int wait_for(pid_t child, rusage* usage) {
  int status = 0;
  while (wait4(child, &status, 0, usage) < 0 && errno == EINTR) continue;
  return status;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::string describe_status(int status) {
  if (WIFEXITED(status)) return "exited with " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

}  // namespace rdmalloc::cli
