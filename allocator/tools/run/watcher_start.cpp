#include "allocator/tools/run/watcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "allocator/report/watcher_name.h"
#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"

namespace rdmalloc::cli {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw Refusal(std::string("--report-every: ") + what + ": " + strerror(errno));
}

// A name that nobody can guess, nor take before us.
std::string make_name() {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != ssize_t{sizeof random}) {
    refuse("no random name");
  }
  return "rdmalloc-watcher-" + std::to_string(getpid()) + "-" + std::to_string(random);
}

int listen_at(const std::string& name) {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) refuse("no socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  const size_t size = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  const int yes = 1;
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(size)) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0) {
    refuse("no socket");
  }
  return socket;
}

// Closes everything but the socket: a reader that waits for the end of a pipe of the program's or a
// launcher's must not wait for the watcher.
void close_all_but(int* socket) {
  constexpr int kFirst = 3;
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < kFirst && null >= 0; ++fd) dup2(null, fd);
  const int moved = fcntl(*socket, F_DUPFD_CLOEXEC, kFirst);
  if (*socket != kFirst && dup3(*socket, kFirst, O_CLOEXEC) == kFirst) *socket = kFirst;
  if (*socket != kFirst) *socket = moved;
  const auto next = static_cast<unsigned>(*socket) + 1;
#ifdef SYS_close_range
  if (syscall(SYS_close_range, next, ~0U, 0) == 0) return;
#endif
  const long most = sysconf(_SC_OPEN_MAX);
  for (int fd = static_cast<int>(next); fd < most; ++fd) close(fd);
}

void allow_many_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

// A batch system may signal all processes of a job; the watcher ends when the program has ended.
[[noreturn]] void become_watcher(int socket, pid_t program, std::chrono::seconds interval) {
  sigset_t all;
  sigfillset(&all);
  (void)sigprocmask(SIG_BLOCK, &all, nullptr);
  (void)prctl(PR_SET_NAME, "rdmalloc-watch");
  close_all_but(&socket);
  allow_many_descriptors();
  try {
    Watcher(socket, program, interval).run();
  } catch (const std::exception&) {
    _exit(1);
  }
  _exit(0);
}

}  // namespace

// Started through a child that ends at once, so that the program has no child it does not know of.
void start_watcher(std::chrono::seconds interval) {
  const std::string name = make_name();
  const int socket = listen_at(name);
  const pid_t program = getpid();
  const pid_t between = fork();
  if (between < 0) refuse("no process");
  if (between == 0) {
    (void)setsid();
    const pid_t watcher = fork();
    if (watcher == 0) become_watcher(socket, program, interval);
    _exit(watcher < 0 ? 1 : 0);
  }
  close(socket);
  if (wait_for(between) != 0) refuse("no process");
  setenv(kWatcherVariable, name.c_str(), 1);
}

}  // namespace rdmalloc::cli
