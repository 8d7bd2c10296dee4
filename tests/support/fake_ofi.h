// A made-up domain of libfabric: it remembers what is registered with it, refuses keys that are in
// use as domains do whose callers choose them, and fails when told to. One for the program.
#pragma once

#include <rdma/fi_domain.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "regcache/backends/ofi.h"

namespace rdmalloc::test {

struct FakeOfi {
  struct Mr {
    void* base;
    size_t length;
    uint64_t access;
    uint64_t key;
  };

  // How the domain is: its mr_mode and its provider.
  bool chooses_keys = false;      // FI_MR_PROV_KEY
  bool has_raw_keys = false;      // FI_MR_RAW
  bool is_for_endpoints = false;  // FI_MR_ENDPOINT
  uint64_t pins = 0;              // 1: registering is charged
  uint64_t largest_key = UINT64_MAX;

  // The error, positive, of the registration with this number, from 0; 0: it succeeds.
  std::function<int(size_t)> answer;
  int close_status = 0;

  fid_domain* domain();

  // What it saw.
  std::vector<Mr> registered;  // ever, refused ones included
  std::map<fid*, Mr> live;
  std::vector<void*> shown;  // to children
  uint64_t pinned = 0;       // bytes
  std::mutex mutex;
};

// A fresh one; the domain's operations speak to the last one made.
FakeOfi& reset_fake_ofi();

// What it pinned.
uint64_t fake_ofi_pinned();

}  // namespace rdmalloc::test
