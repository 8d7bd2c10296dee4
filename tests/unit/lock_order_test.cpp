#include "regcache/lock_order.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "regcache/in_backend.h"
#include "regcache/posix_lock.h"
#include "tests/support/catch.h"

namespace rdmalloc {
namespace {

pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

// Whether a child that does this is killed.
template <typename Action>
bool is_deadly(Action action) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGILL, SIG_DFL);
    signal(SIGTRAP, SIG_DFL);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

}  // namespace

TEST_CASE("an opening may call a driver, that driver another, and that one look into a table") {
  CHECK(!is_deadly([] {
    const PosixLock opening(&outer, LockRank::kOuter);
    const InBackend driver(false);
    const InBackend another(false);
    assert_linker_may_be_called();
    const PosixLock look(&table);
  }));
}

TEST_CASE("a debug build dies when a driver is called with a table locked") {
  CHECK(is_deadly([] {
    const PosixLock look(&table);
    const InBackend driver(false);
  }));
}

TEST_CASE("a driver that runs inside malloc may be called with a table locked") {
  CHECK(!is_deadly([] {
    const PosixLock look(&table);
    const InBackend driver(true);
  }));
}

TEST_CASE("a debug build dies when an opening is waited for inside of a driver") {
  CHECK(is_deadly([] {
    const InBackend driver(false);
    const PosixLock opening(&outer, LockRank::kOuter);
  }));
}

TEST_CASE("a debug build dies when the dynamic linker is called with a lock held") {
  CHECK(is_deadly([] {
    const PosixLock opening(&outer, LockRank::kOuter);
    assert_linker_may_be_called();
  }));
  CHECK(is_deadly([] {
    const PosixLock look(&table);
    assert_linker_may_be_called();
  }));
}

TEST_CASE("a debug build dies when a table is locked under another") {
  CHECK(is_deadly([] {
    const PosixLock look(&table);
    const PosixLock other(&outer);
  }));
}

}  // namespace rdmalloc
