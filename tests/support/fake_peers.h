// Other processes' memory, made up: handles that open as addresses that nothing lies at. Remembers
// what is open, fails when told to, and notes what a correct cache never does. Thread-safe.
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

  // Says RDM_BACKEND_OVERLAPS where memory of that peer that overlaps is open; else that is
  // allowed.
  std::atomic<bool> opens_once{false};
  // The calls of open from the k-th on fail, or the k-th alone; 0: none does.
  std::atomic<uint64_t> fail_from{0};
  std::atomic<uint64_t> fail_only{0};
  std::atomic<int> fail_status{RDM_SYSTEM};
  std::atomic<bool> gives_reasons{true};
  // Says RDM_OK, and no address.
  std::atomic<bool> gives_no_address{false};
  std::atomic<int> close_status{RDM_OK};
  // More bytes than these say RDM_OUT_OF_BUDGET, as a device does whose memory is full.
  std::atomic<uint64_t> room{UINT64_MAX};
  // Called in open before anything else.
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
  uint64_t most_open() const { return most_open_; }  // at a time
  uint64_t most_bytes() const { return most_bytes_; }

  uint64_t opened() const { return opened_; }  // ever
  std::vector<uintptr_t> take_closed();        // since the last time, in order
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
