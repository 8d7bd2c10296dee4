// A fake UCX behind the functions that the backend calls: it counts, checks its arguments, and
// fails when told to. One per program; thread-safe except for the settings.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "regcache/backends/ucx/backend.h"

namespace rdmalloc::test {

struct FakeUcx {
  struct Mapping {
    void* base;
    size_t length;
    std::thread::id thread;
  };

  ucp_context_h context() { return reinterpret_cast<ucp_context_h>(this); }

  // What it reports about the context.
  ucs_thread_mode_t thread_mode = UCS_THREAD_MODE_MULTI;
  // How often each mapped byte is pinned: once per network card.
  unsigned pins = 0;
  // The status of a mapping, given how many came before. Null: it succeeds.
  std::function<ucs_status_t(size_t before)> answer;
  // Returns one handle for all, as UCX does for memory it finds already mapped.
  bool shares_handles = false;

  // What it saw, including each domain's trial mapping.
  std::vector<Mapping> mapped;
  std::vector<void*> unmapped;  // base addresses, in order
  std::vector<void*> shown;     // to children of fork, after mapping
  std::map<ucp_mem_h, Mapping> live;
  uint64_t pinned = 0;
  std::mutex mutex;
};

// A fresh one; the library's functions use the latest one.
FakeUcx& reset_fake_ucx();

// All the UCX functions that the backend knows.
UcxLibrary fake_ucx_library();

}  // namespace rdmalloc::test
