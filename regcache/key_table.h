// The registrations of one domain, by region: the array that a lookup reads.
//
// One thread at a time registers a region (its state is kBusy then); readers take no lock. A region
// that is one memory region (MR) is published by its length, with release order, after the rest; it
// does not change until the domain is closed, or the region has lost all its pages. All that a hit
// reads is atomic, because a lookup that comes as the domain is closed may read while the entry is
// used again. A region that a device's limits, or pages that were retired before it was registered,
// cut into pieces leaves the length at zero, which sends readers to the slow path.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"
#include "regcache/cause.h"

namespace rdmalloc {

enum KeyState : uint32_t {
  kUnregistered,
  kBusy,        // a thread is registering or deregistering it
  kRegistered,  // all of it, or as many of its pieces as the device may have
  kRefused,     // the last try failed
  kAsked,       // for the registrar, by a lookup that found no part of it: see EarlyParts
};

// An MR of a region that took several.
struct Piece {
  size_t offset;  // bytes from the region's base; pieces are in this order
  size_t length;  // bytes; 0: not registered, because the device may have no more
  rdm_backend_key key;
};

struct Keys {
  uint32_t lkey, rkey;
};

struct alignas(64) KeyEntry {
  std::atomic<size_t> length{0};  // of the one MR; 0: none, or pieces
  std::atomic<uintptr_t> base{0};
  std::atomic<uint64_t> keys{0};  // lkey and rkey, as they lie in an rdm_mr
  std::atomic<void*> handle{nullptr};

  std::atomic<uint32_t> state{kUnregistered};
  std::atomic<uint32_t> pieces{0};  // in use of `piece`; 0: one MR, or none
  uint32_t piece_room = 0;          // kept when the domain is closed, for the next one

  std::atomic<int16_t> refusal{RDM_OK};  // why the last try failed, a status
  std::atomic<Cause> cause{Cause::kPassing};
  std::atomic<uint8_t> refusals{0};  // since it was last registered; or enough of them
  Piece* piece = nullptr;
  // When another try is due: a time, or what must be less in use than this (kNoRoom).
  std::atomic<uint64_t> due{0};

  bool was_refused() const { return refusals.load(std::memory_order_acquire) != 0; }
  void forget_refusals() { refusals.store(0, std::memory_order_release); }

  void publish(uintptr_t at, size_t bytes, const rdm_backend_key& key) {
    base.store(at, std::memory_order_relaxed);
    keys.store(std::bit_cast<uint64_t>(Keys{key.lkey, key.rkey}), std::memory_order_relaxed);
    handle.store(key.handle, std::memory_order_relaxed);
    length.store(bytes, std::memory_order_release);
  }

  // After length was read with acquire order, and was not zero.
  rdm_backend_key key() const {
    const auto both = std::bit_cast<Keys>(keys.load(std::memory_order_relaxed));
    return {both.lkey, both.rkey, handle.load(std::memory_order_relaxed)};
  }
};

}  // namespace rdmalloc
