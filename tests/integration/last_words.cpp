// Where the library's one warning goes when standard error is not what it was, and whether it does
// harm.
//
//   last_words taken           a file that the program opens gets descriptor 2
//   last_words taken-at-start  descriptor 2 was already closed when the program started
//   last_words closed-pipe     nobody reads standard error any more
// Each runs the program again as `last_words grow`.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;

// Allocates beyond the cap, which triggers a warning.
void grow() {
  for (int i = 0; i < 8; ++i) {
    if (malloc(size_t{4} << 20) == nullptr) verdict.broken("malloc failed");
  }
  if (probe::library().loaded() && probe::stats().overflow_bytes == 0) {
    verdict.broken("there was nothing to warn of");
  }
}

// A file of the program's own, whose header must remain its only content.
int open_database() {
  char name[] = "/tmp/rdm_last_words_XXXXXX";
  const int fd = mkstemp(name);
  if (fd < 0) probe::skip("cannot make a file in /tmp");
  unlink(name);
  if (fd != STDERR_FILENO) probe::skip("the file did not get descriptor 2");
  (void)!write(fd, "HEADER", 6);
  return fd;
}

void check_taken() {
  const int fd = open_database();
  grow();
  struct stat now {};
  fstat(fd, &now);
  if (now.st_size != 6) verdict.broken("%ld bytes went into the program's file", now.st_size - 6);
}

void run_again(char* self, const char* how) {
  char* arguments[] = {self, const_cast<char*>(how), nullptr};
  const pid_t pid = fork();
  if (pid == 0) {
    if (strcmp(how, "grow") == 0) {
      int ends[2];
      if (pipe(ends) != 0) _exit(probe::kBroken);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      signal(SIGPIPE, SIG_DFL);
    } else {
      close(STDERR_FILENO);
    }
    execv(self, arguments);
    _exit(127);
  }
  const probe::ChildEnd end = probe::end_of(pid);
  verdict.expect_good_end("the program", end);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(30);
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "taken") == 0) {
    close(STDERR_FILENO);
    check_taken();
  } else if (strcmp(what, "taken-now") == 0) {
    check_taken();
  } else if (strcmp(what, "taken-at-start") == 0) {
    run_again(argv[0], "taken-now");
  } else if (strcmp(what, "closed-pipe") == 0) {
    run_again(argv[0], "grow");
  } else {
    grow();
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, SIGPIPE) == 1) verdict.broken("a SIGPIPE was left behind");
  }
  return verdict.status();
}
