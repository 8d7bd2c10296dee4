// Fake memory of other processes: handles open at addresses where nothing is mapped. Remembers what
// is open, fails when told to, and records what a correct cache never does. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "include/rdmalloc/remote.h"

namespace rdmalloc::fake {

class Peers {
 public:
  Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Answers RDM_BACKEND_OVERLAPS if overlapping memory of that peer is open; otherwise overlaps are
  // allowed.
  std::atomic<bool> opens_once{false};
  // open fails from the k-th call on, or on the k-th call only; 0: never.
  std::atomic<uint64_t> fail_from{0};
  std::atomic<uint64_t> fail_only{0};
  std::atomic<int> fail_status{RDM_SYSTEM};
  std::atomic<bool> gives_reasons{true};
  // Returns RDM_OK without an address.
  std::atomic<bool> gives_no_address{false};
  std::atomic<int> close_status{RDM_OK};
  // Beyond this many bytes it answers RDM_OUT_OF_BUDGET, as a device whose memory is full.
  std::atomic<uint64_t> room{UINT64_MAX};
  // Called first in open.
  void (*on_open)(void*) = nullptr;
  void* on_open_context = nullptr;

  rdm_remote_operations operations() const;

  struct Open {
    uint64_t peer = 0, base = 0;
    size_t length = 0;
    std::string handle;
  };
  std::map<uintptr_t, Open> open() const;  // now, by address
  bool is_open(const rdm_remote_mapping& mapping) const;
  uint64_t bytes() const;
  uint64_t most_open() const { return most_open_; }  // at any one time
  uint64_t most_bytes() const { return most_bytes_; }

  uint64_t opened() const { return opened_; }  // ever
  std::vector<uintptr_t> take_closed();        // since the last call, in order
  int closed() const { return closed_; }       // calls of closed()
  int closed_in_child() const { return closed_in_child_; }
  std::vector<std::string> violations() const;

 private:
  int do_open(const rdm_remote_memory& memory, void** address, char* why, size_t why_size);
  int do_close(void* address, size_t length);
  uint64_t bytes_locked() const;

  mutable std::mutex mutex_;
  std::map<uintptr_t, Open> open_;
  std::vector<uintptr_t> closed_addresses_;
  std::vector<std::string> violations_;
  uintptr_t next_address_ = 1 << 20;
  uint64_t most_bytes_ = 0;
  uint64_t most_open_ = 0;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> opened_{0};
  std::atomic<int> closed_{0};
  std::atomic<int> closed_in_child_{0};
};

}  // namespace rdmalloc::fake
