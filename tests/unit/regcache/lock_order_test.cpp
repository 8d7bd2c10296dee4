#include "regcache/lock_order.h"

#include "regcache/domain/in_backend.h"
#include "regcache/posix_lock.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"

namespace rdmalloc {
namespace {

pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

}  // namespace

TEST_CASE("an opening may call a driver, that driver another, and that one look into a table") {
  CHECK(!test::crashes([] {
    const PosixLock opening(&outer, LockRank::kOuter);
    const InBackend driver(false);
    const InBackend another(false);
    assert_linker_may_be_called();
    const PosixLock look(&table);
  }));
}

TEST_CASE("a debug build dies when a driver is called with a table locked") {
  CHECK(test::crashes([] {
    const PosixLock look(&table);
    const InBackend driver(false);
  }));
}

TEST_CASE("a driver that runs inside malloc may be called with a table locked") {
  CHECK(!test::crashes([] {
    const PosixLock look(&table);
    const InBackend driver(true);
  }));
}

TEST_CASE("a debug build dies when an opening is waited for inside of a driver") {
  CHECK(test::crashes([] {
    const InBackend driver(false);
    const PosixLock opening(&outer, LockRank::kOuter);
  }));
}

TEST_CASE("a debug build dies when the dynamic linker is called with a lock held") {
  CHECK(test::crashes([] {
    const PosixLock opening(&outer, LockRank::kOuter);
    assert_linker_may_be_called();
  }));
  CHECK(test::crashes([] {
    const PosixLock look(&table);
    assert_linker_may_be_called();
  }));
}

TEST_CASE("a debug build dies when a table is locked under another") {
  CHECK(test::crashes([] {
    const PosixLock look(&table);
    const PosixLock other(&outer);
  }));
}

}  // namespace rdmalloc
