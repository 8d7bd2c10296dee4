// A fake RDMA device behind the libibverbs functions that the backend calls: it counts, checks its
// arguments, and fails when told to. One per program; only registering is thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "regcache/backends/verbs/backend.h"

namespace rdmalloc::test {

struct FakeVerbs {
  struct Call {
    void* base;
    size_t length;
    unsigned access;
    bool optional_access;  // requested through ibv_reg_mr_iova2
  };

  ~FakeVerbs() {
    for (ibv_mr* mr : live) delete mr;
  }

  // What the device reports.
  int max_mr = 1000;
  uint64_t max_mr_size = UINT64_MAX;
  ibv_odp_caps odp{};
  ForkStatus fork_status = ForkStatus::kUnneeded;
  bool hides_from_children = false;  // as libibverbs does after ibv_fork_init()
  bool query_fails = false;

  // The errno for a registration with these arguments; 0: it succeeds. Called after the range was
  // hidden from children.
  std::function<int(const Call&)> refuse;
  int deregister_status = 0;

  // What it saw.
  std::vector<Call> calls;
  std::set<ibv_mr*> live;
  std::mutex mutex;

  verbs_context context{};
  ibv_pd pd{};
};

// A fresh device; the library's functions use the latest one.
FakeVerbs& reset_fake_verbs();

// All the libibverbs functions that the backend knows.
VerbsLibrary fake_verbs_library();

}  // namespace rdmalloc::test
