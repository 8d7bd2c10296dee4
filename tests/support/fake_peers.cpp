#include "tests/support/fake_peers.h"

#include <algorithm>
#include <cstdio>

#include "include/rdmalloc/backend.h"

namespace rdmalloc::fake {

rdm_remote_operations Peers::operations() const {
  rdm_remote_operations operations{};
  operations.size = sizeof operations;
  operations.name = "fake";
  operations.open = [](void* self, const rdm_remote_memory* memory, void** address, char* why,
                       size_t why_size) {
    return static_cast<Peers*>(self)->do_open(*memory, address, why, why_size);
  };
  operations.close = [](void* self, void* address, size_t length) {
    return static_cast<Peers*>(self)->do_close(address, length);
  };
  operations.closed = [](void* self, int forked) {
    ++static_cast<Peers*>(self)->closed_;
    static_cast<Peers*>(self)->closed_in_child_ += forked;
  };
  return operations;
}

uint64_t Peers::bytes_locked() const {
  uint64_t sum = 0;
  for (const auto& [address, one] : open_) sum += one.length;
  return sum;
}

int Peers::do_open(const rdm_remote_memory& memory, void** address, char* why, size_t why_size) {
  if (on_open != nullptr) on_open(on_open_context);
  const uint64_t call = ++calls_;
  if ((fail_from != 0 && call >= fail_from) || call == fail_only) {
    if (gives_reasons) {
      snprintf(why, why_size, "call %llu was to fail", static_cast<unsigned long long>(call));
    }
    return fail_status;
  }
  if (gives_no_address) return RDM_OK;
  const std::lock_guard hold(mutex_);
  if (memory.length == 0 || memory.handle_size == 0) violations_.emplace_back("empty");
  for (const auto& [at, one] : open_) {
    const bool overlaps = one.peer == memory.peer && memory.base < one.base + one.length &&
                          one.base < memory.base + memory.length;
    if (overlaps && opens_once) return RDM_BACKEND_OVERLAPS;
  }
  if (bytes_locked() + memory.length > room) return RDM_OUT_OF_BUDGET;
  const auto* const handle = static_cast<const char*>(memory.handle);
  open_[next_address_] = {memory.peer, memory.base, memory.length,
                          std::string(handle, memory.handle_size)};
  *address = reinterpret_cast<void*>(next_address_);
  next_address_ += memory.length;
  most_open_ = std::max(most_open_, uint64_t{open_.size()});
  most_bytes_ = std::max(most_bytes_, bytes_locked());
  ++opened_;
  return RDM_OK;
}

int Peers::do_close(void* address, size_t length) {
  const std::lock_guard hold(mutex_);
  const auto found = open_.find(reinterpret_cast<uintptr_t>(address));
  if (found == open_.end() || found->second.length != length) {
    violations_.emplace_back("closed what is not open");
    return RDM_INVALID;
  }
  if (close_status != RDM_OK) return close_status;
  closed_addresses_.push_back(found->first);
  open_.erase(found);
  return RDM_OK;
}

std::map<uintptr_t, Peers::Open> Peers::open() const {
  const std::lock_guard hold(mutex_);
  return open_;
}

bool Peers::is_open(const rdm_remote_mapping& mapping) const {
  const std::lock_guard hold(mutex_);
  const auto found = open_.find(reinterpret_cast<uintptr_t>(mapping.address));
  return found != open_.end() && found->second.length == mapping.length;
}

uint64_t Peers::bytes() const {
  const std::lock_guard hold(mutex_);
  return bytes_locked();
}

std::vector<uintptr_t> Peers::take_closed() {
  const std::lock_guard hold(mutex_);
  std::vector<uintptr_t> taken;
  taken.swap(closed_addresses_);
  return taken;
}

std::vector<std::string> Peers::violations() const {
  const std::lock_guard hold(mutex_);
  return violations_;
}

}  // namespace rdmalloc::fake
