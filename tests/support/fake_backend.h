// A backend without a device: it records what it was asked, enforces its limits, and fails when
// told to. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "include/rdmalloc/backend.h"

namespace rdmalloc::fake {

class Backend {
 public:
  Backend() = default;
  ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // The limits it reports; set before a domain is opened.
  rdm_backend_limits limits{};
  int limits_status = RDM_OK;

  // register_memory fails with that status from the k-th call on, or on the k-th call only; 0:
  // never.
  std::atomic<uint64_t> fail_from{0};
  std::atomic<uint64_t> fail_only{0};
  std::atomic<int> fail_status{RDM_SYSTEM};
  std::atomic<int> deregister_status{RDM_OK};
  // Called first in register_memory.
  void (*on_register)(void*) = nullptr;
  void* on_register_context = nullptr;

  rdm_backend ops() const;

  struct Registered {
    uintptr_t base = 0;
    size_t length = 0;
    unsigned access = 0;
    bool pinned = false;
    bool exposed = false;
    bool foreign = false;
  };
  std::vector<Registered> registered() const;  // now, by address
  size_t registered_bytes() const;
  size_t ever_registered_bytes() const { return ever_registered_; }
  uint64_t calls() const { return calls_; }
  int closed() const { return closed_; }
  int closed_in_child() const { return closed_in_child_; }

  // What a correct caller never does: overlaps, double deregistration, exceeding the limits.
  std::vector<std::string> violations() const;

  // Whether the key belongs to an MR that is registered now and covers the range.
  bool covers(const rdm_mr& mr, const void* address, size_t length) const;

 private:
  int register_memory(const rdm_backend_request* request, rdm_backend_key* out, char* why,
                      size_t why_size);
  int deregister_memory(const rdm_backend_key* key);
  void violate(const std::string& what) { violations_.push_back(what); }

  mutable std::mutex mutex_;
  std::map<uint32_t, Registered> by_key_;
  uint32_t next_key_ = 1;
  std::atomic<uint64_t> calls_{0};
  std::atomic<size_t> ever_registered_{0};
  std::atomic<int> closed_{0};
  std::atomic<int> closed_in_child_{0};
  std::vector<std::string> violations_;
};

}  // namespace rdmalloc::fake
