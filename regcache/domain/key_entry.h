// What a domain has registered of one region: an entry of the array that a lookup reads (KeyTable).
//
// One thread at a time registers a region (its state is then kBusy); readers take no lock. A region
// that is one memory region (MR) is published by storing its length, with release order, after the
// rest. It does not change until the domain is closed, or the region has lost all its pages. All
// that a hit reads is atomic, because a lookup during close may read while the entry is reused. If
// a device's limits, or pages that were retired before the registration, cut a region into pieces,
// the length stays zero, which sends readers to the slow path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"
#include "include/rdmalloc/backend.h"
#include "regcache/domain/cause.h"

namespace rdmalloc {

enum KeyState : uint32_t {
  kUnregistered,
  kBusy,        // a thread is registering or deregistering it
  kRegistered,  // all of it, or as many of its pieces as the device may have
  kRefused,     // the last try failed
  kAsked,       // a lookup took a part of it and left the rest to the registrar: see EarlyParts
};

// One of several MRs of a region.
struct Piece {
  size_t offset;  // bytes from the region's base; pieces are in this order
  size_t length;  // bytes; 0: not registered, because the device may have no more
  rdm_backend_key key;

  // The length, for those whom nothing keeps from reading while the piece is registered; then the
  // key is there, too.
  size_t registered() const { return __atomic_load_n(&length, __ATOMIC_ACQUIRE); }
};

struct Keys {
  uint32_t lkey, rkey;
};

struct alignas(os::kCacheLine) KeyEntry {
  std::atomic<size_t> length{0};  // of the one MR; 0: none, or pieces
  std::atomic<uintptr_t> base{0};
  std::atomic<uint64_t> keys{0};  // lkey and rkey, as they lie in an rdm_mr
  std::atomic<void*> handle{nullptr};

  std::atomic<uint32_t> state{kUnregistered};
  std::atomic<uint32_t> pieces{0};  // how many of `piece` are in use; 0: one MR, or none
  uint32_t piece_room = 0;          // kept when the domain is closed, for the next one

  std::atomic<int16_t> refusal{RDM_OK};  // why the last try failed, a status
  std::atomic<Cause> cause{Cause::kPassing};
  std::atomic<uint8_t> refusals{0};  // since it was last registered; saturates
  Piece* piece = nullptr;
  // When another try is due: a time, or, for kNoRoom, the use that must be undercut.
  std::atomic<uint64_t> due{0};

  // Some pieces are registered, and the rest may be, while lookups read those.
  bool is_short() const { return cause.load(std::memory_order_acquire) == Cause::kPartly; }
  void set_short(bool is) {
    if (is || is_short())
      cause.store(is ? Cause::kPartly : Cause::kPassing, std::memory_order_release);
  }
  // Whether lookups may read what is registered, in that state.
  bool is_readable(uint32_t now) const {
    return now == kRegistered || (now == kBusy && is_short());
  }
  bool was_refused() const { return refusals.load(std::memory_order_acquire) != 0; }
  void forget_refusals() { refusals.store(0, std::memory_order_release); }

  void publish(uintptr_t at, size_t bytes, const rdm_backend_key& key) {
    base.store(at, std::memory_order_relaxed);
    keys.store(__builtin_bit_cast(uint64_t, Keys{key.lkey, key.rkey}), std::memory_order_relaxed);
    handle.store(key.handle, std::memory_order_relaxed);
    length.store(bytes, std::memory_order_release);
  }

  // To be called after length was read with acquire order and was not zero.
  rdm_backend_key key() const {
    const auto both = __builtin_bit_cast(Keys, keys.load(std::memory_order_relaxed));
    return {both.lkey, both.rkey, handle.load(std::memory_order_relaxed)};
  }
};

// What a lookup answers.
inline rdm_mr mr_of(uintptr_t base, size_t length, const rdm_backend_key& key) {
  return {reinterpret_cast<void*>(base), length, key.lkey, key.rkey, key.handle};
}

}  // namespace rdmalloc
