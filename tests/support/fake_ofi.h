// A fake libfabric domain: it records what is registered, refuses keys in use (as domains do when
// callers choose the keys), and fails when told to. One per program.
#pragma once

#include <rdma/fi_domain.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "regcache/backends/ofi/backend.h"

namespace rdmalloc::test {

struct FakeOfi {
  struct Mr {
    void* base;
    size_t length;
    uint64_t access;
    uint64_t key;
  };

  // The domain's properties: mr_mode and provider.
  bool chooses_keys = false;      // FI_MR_PROV_KEY
  bool has_raw_keys = false;      // FI_MR_RAW
  bool is_for_endpoints = false;  // FI_MR_ENDPOINT
  uint64_t pins = 0;              // 1: registering is charged
  uint64_t largest_key = UINT64_MAX;

  // The positive error of the n-th registration, counted from 0; 0: it succeeds.
  std::function<int(size_t)> answer;
  int close_status = 0;

  fid_domain* domain();

  // What it saw.
  std::vector<Mr> registered;  // ever, including refused ones
  std::map<fid*, Mr> live;
  std::vector<void*> shown;  // to children of fork
  uint64_t pinned = 0;       // bytes
  std::mutex mutex;
};

// A fresh one; the domain's operations use the latest one.
FakeOfi& reset_fake_ofi();

// The bytes it has pinned.
uint64_t fake_ofi_pinned();

}  // namespace rdmalloc::test
