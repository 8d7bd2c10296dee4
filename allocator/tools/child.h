// Descriptors that the command opens, and processes that it starts.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace rdmalloc::cli {

// Closed when it goes; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { shut(); }

  int get() const { return fd_; }
  void shut();

 private:
  int fd_;
};

struct Pipe {
  Pipe();
  bool is_open() const { return out.get() >= 0; }  // else errno says why not
  Descriptor out, in;                              // to read from, to write to
};

// The words as exec takes them, a null pointer behind; they live as long as `words`.
std::vector<char*> exec_list(const std::vector<std::string>& words);

// All there is to read, or as much as could be.
std::string read_all(int fd);

// The same of a file. If that is nothing, errno says why, or is as it was: the file is empty.
std::string read_file(const std::string& path);

// LD_PRELOAD in this process's environment; empty: none.
std::string preloads();
void set_preloads(const std::string& value);

// The child's status, and what it used unless null.
int wait_for(pid_t child, rusage* usage = nullptr);

double seconds_of(const timeval& time);

// "exited with 3", "was killed by signal 11 (Segmentation fault)".
std::string describe_status(int status);

}  // namespace rdmalloc::cli
