// A made-up UCX behind the functions that the backend calls: it counts, checks that what it is
// given makes sense, and fails when told to. One for the program; thread-safe but for the settings.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "regcache/backends/ucx.h"

namespace rdmalloc::test {

struct FakeUcx {
  struct Mapping {
    void* base;
    size_t length;
    std::thread::id thread;
  };

  ucp_context_h context() { return reinterpret_cast<ucp_context_h>(this); }

  // What it says of the context.
  ucs_thread_mode_t thread_mode = UCS_THREAD_MODE_MULTI;
  // How often each byte that is mapped is pinned: once for each network card.
  unsigned pins = 0;
  // What a mapping comes to, given how many there were before. Null: it succeeds.
  std::function<ucs_status_t(size_t before)> answer;
  // Gives one handle for all, as UCX does for memory that it finds mapped.
  bool shares_handles = false;

  // What it saw, the trial mapping of each domain included.
  std::vector<Mapping> mapped;
  std::vector<void*> unmapped;  // bases, in that order
  std::vector<void*> shown;     // to children of fork, after they were mapped
  std::map<ucp_mem_h, Mapping> live;
  uint64_t pinned = 0;
  std::mutex mutex;
};

// A fresh one; the library's functions speak to the last one made.
FakeUcx& reset_fake_ucx();

// All of UCX that the backend knows.
UcxLibrary fake_ucx_library();

}  // namespace rdmalloc::test
