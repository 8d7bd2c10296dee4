#include "allocator/mutex.h"

#include "tests/support/catch.h"
#include "tests/support/child.h"

namespace rdmalloc {
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
  CHECK(test::crashes([] {
    Mutex growth(Rank::kGrowth);
    Mutex pool(Rank::kPool);
    Locked inner(pool);
    Locked outer(growth);
  }));
}

TEST_CASE("a debug build dies when a lock is taken twice") {
  CHECK(test::crashes([] {
    Mutex pool(Rank::kPool);
    Locked once(pool);
    Locked twice(pool);
  }));
}

TEST_CASE("a child that takes the locks in order lives") {
  const test::ChildEnd end = test::run_child([] {
    Mutex growth(Rank::kGrowth);
    Mutex pool(Rank::kPool);
    Locked outer(growth);
    Locked inner(pool);
  });
  CHECK(end.exited_well());
}

}  // namespace rdmalloc
