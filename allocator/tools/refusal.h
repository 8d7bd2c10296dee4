// Why the command stops: a sentence for the user, and the exit status.
#pragma once

#include <stdexcept>
#include <string>

namespace rdmalloc::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitProblem = 1;          // info, doctor: something is not as it should be
inline constexpr int kExitRefused = 2;          // nothing was run
inline constexpr int kExitNotExecutable = 126;  // as a shell says it
inline constexpr int kExitNotFound = 127;

class Refusal : public std::runtime_error {
 public:
  explicit Refusal(const std::string& why, int status = kExitRefused)
      : std::runtime_error(why), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

}  // namespace rdmalloc::cli
