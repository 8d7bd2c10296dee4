#include "tests/support/fake_backend.h"

#include <algorithm>
#include <cstdio>

namespace rdmalloc::fake {

rdm_backend Backend::ops() const {
  rdm_backend ops{};
  ops.size = sizeof ops;
  ops.name = "fake";
  ops.limits = [](void* self, rdm_backend_limits* out) {
    *out = static_cast<Backend*>(self)->limits;
    return static_cast<Backend*>(self)->limits_status;
  };
  ops.register_memory = [](void* self, const rdm_backend_request* request, rdm_backend_key* out,
                           char* why, size_t why_size) {
    return static_cast<Backend*>(self)->register_memory(request, out, why, why_size);
  };
  ops.deregister_memory = [](void* self, const rdm_backend_key* key) {
    return static_cast<Backend*>(self)->deregister_memory(key);
  };
  ops.closed = [](void* self, int forked) {
    ++static_cast<Backend*>(self)->closed_;
    static_cast<Backend*>(self)->closed_in_child_ += forked;
  };
  return ops;
}

int Backend::register_memory(const rdm_backend_request* request, rdm_backend_key* out, char* why,
                             size_t why_size) {
  if (on_register != nullptr) on_register(on_register_context);
  const uint64_t call = ++calls_;
  if ((fail_from != 0 && call >= fail_from) || call == fail_only) {
    snprintf(why, why_size, "call %llu was to fail", static_cast<unsigned long long>(call));
    return fail_status;
  }
  const auto base = reinterpret_cast<uintptr_t>(request->base);
  const std::lock_guard hold(mutex_);
  if (limits.max_length != 0 && request->length > limits.max_length) violate("too long");
  if (limits.max_count != 0 && by_key_.size() >= limits.max_count) violate("too many");
  if (limits.alignment != 0 && (base | request->length) % limits.alignment != 0) {
    violate("not aligned");
  }
  if (request->length == 0) violate("empty");
  if (!request->pinned && !request->foreign && (limits.abilities & RDM_BACKEND_ON_DEMAND) == 0) {
    violate("not pinned");
  }
  for (const auto& [key, other] : by_key_) {
    const bool overlaps = base < other.base + other.length && other.base < base + request->length;
    // Two overlaps are allowed: foreign memory, while one registration replaces another; and parts
    // of a region, registered ahead of the rest.
    const bool is_part = (other.base != base || other.length != request->length) &&
                         (limits.abilities & RDM_BACKEND_ONCE) == 0 && limits.max_length == 0 &&
                         !other.foreign && !request->foreign;
    if (overlaps && !is_part && !(other.foreign && request->foreign)) {
      violate("registered twice");
    }
  }
  ever_registered_ += request->length;
  const uint32_t key = next_key_++;
  by_key_[key] = {base,
                  request->length,
                  request->access,
                  request->pinned != 0,
                  request->exposed != 0,
                  request->foreign != 0};
  *out = {key, key + 1'000'000, reinterpret_cast<void*>(base)};
  return RDM_OK;
}

int Backend::deregister_memory(const rdm_backend_key* key) {
  const std::lock_guard hold(mutex_);
  if (deregister_status == RDM_BACKEND_LATER && by_key_.count(key->lkey) == 1) {
    return RDM_BACKEND_LATER;
  }
  if (by_key_.erase(key->lkey) != 1) violate("deregistered what is not registered");
  return deregister_status;
}

std::vector<Backend::Registered> Backend::registered() const {
  const std::lock_guard hold(mutex_);
  std::vector<Registered> all;
  for (const auto& [key, one] : by_key_) all.push_back(one);
  std::sort(all.begin(), all.end(),
            [](const Registered& a, const Registered& b) { return a.base < b.base; });
  return all;
}

size_t Backend::registered_bytes() const {
  size_t sum = 0;
  for (const Registered& one : registered()) sum += one.length;
  return sum;
}

std::vector<std::string> Backend::violations() const {
  const std::lock_guard hold(mutex_);
  return violations_;
}

bool Backend::covers(const rdm_mr& mr, const void* address, size_t length) const {
  const std::lock_guard hold(mutex_);
  const auto found = by_key_.find(mr.lkey);
  if (found == by_key_.end()) return false;
  const Registered& one = found->second;
  const auto at = reinterpret_cast<uintptr_t>(address);
  return mr.rkey == mr.lkey + 1'000'000 && reinterpret_cast<uintptr_t>(mr.base) == one.base &&
         mr.length == one.length && at >= one.base && length <= one.length &&
         at - one.base <= one.length - length;
}

}  // namespace rdmalloc::fake
