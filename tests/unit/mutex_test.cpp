#include "allocator/mutex.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.h"

namespace rdmalloc {
namespace {

// How a child that does this ends: 0, or the number of the signal that killed it.
template <typename Action>
int death_of(Action action) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGILL, SIG_DFL);
    signal(SIGTRAP, SIG_DFL);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("locks are taken from the outer rank to the inner one") {
  Mutex growth(Rank::kGrowth);
  Mutex pool(Rank::kPool);
  for (int i = 0; i < 2; ++i) {
    Locked outer(growth);
    Locked inner(pool);
  }
  Locked alone(pool);
  SUCCEED();
}

TEST_CASE("a debug build dies when locks are taken the other way round") {
  CHECK(death_of([] {
          Mutex growth(Rank::kGrowth);
          Mutex pool(Rank::kPool);
          Locked inner(pool);
          Locked outer(growth);
        }) != 0);
}

TEST_CASE("a debug build dies when a lock is taken twice") {
  CHECK(death_of([] {
          Mutex pool(Rank::kPool);
          Locked once(pool);
          Locked twice(pool);
        }) != 0);
}

TEST_CASE("a child that takes the locks in order lives") {
  CHECK(death_of([] {
          Mutex growth(Rank::kGrowth);
          Mutex pool(Rank::kPool);
          Locked outer(growth);
          Locked inner(pool);
        }) == 0);
}

}  // namespace rdmalloc
