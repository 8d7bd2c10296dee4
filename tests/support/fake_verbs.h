// A made-up RDMA device behind the functions of libibverbs that the backend calls: it counts,
// checks that what it is given makes sense, and fails when told to. One for the program; not
// thread-safe but for registering.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "regcache/backends/verbs.h"

namespace rdmalloc::test {

struct FakeVerbs {
  struct Call {
    void* base;
    size_t length;
    unsigned access;
    bool optional_access;  // through ibv_reg_mr_iova2
  };

  ~FakeVerbs() {
    for (ibv_mr* mr : live) delete mr;
  }

  // What the device says of itself.
  int max_mr = 1000;
  uint64_t max_mr_size = UINT64_MAX;
  ibv_odp_caps odp{};
  ibv_fork_status fork_status = IBV_FORK_UNNEEDED;
  bool hides_from_children = false;  // as libibverbs after ibv_fork_init()
  bool query_fails = false;

  // The errno of a registration with these arguments; 0: it succeeds. Called after the range was
  // hidden.
  std::function<int(const Call&)> refuse;
  int deregister_status = 0;

  // What it saw.
  std::vector<Call> calls;
  std::set<ibv_mr*> live;
  std::mutex mutex;

  verbs_context context{};
  ibv_pd pd{};
};

// A fresh device; the library's functions speak to the last one made.
FakeVerbs& reset_fake_verbs();

// All of libibverbs that the backend knows.
VerbsLibrary fake_verbs_library();

}  // namespace rdmalloc::test
