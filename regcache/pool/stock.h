// A thread's stock of one pool's free buffers: a stack that its owner uses without a lock and
// without a locked instruction, and that others may still reach into.
//
// The owner sets `busy`, then checks `revoked`. A thread that reaches in sets `revoked`, then
// checks `busy`. Both orders must be kept. The owner's costs nothing, because the other side makes
// all processors keep it (os/process_barrier.h). If the kernel cannot do that, the owner pays for a
// locked instruction (`fenced`).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"
#include "regcache/pool/chunk.h"

namespace rdmalloc {

struct alignas(os::kCacheLine) Stock {
  static constexpr uint32_t kMost = 64;

  // For the owner. False: it is revoked; take FreeBuffers::members_ instead.
  bool enter(bool fenced) {
    if (fenced) [[unlikely]] {
      (void)busy.exchange(1, std::memory_order_seq_cst);
    } else {
      busy.store(1, std::memory_order_relaxed);
      asm volatile("" ::: "memory");
    }
    // Not acquire: past the exchange's own store a processor may read such a load early.
    if (revoked.load(std::memory_order_seq_cst) == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() { busy.store(0, std::memory_order_release); }

  // Inside, or under FreeBuffers::members_ while it is revoked.
  bool pop(PoolItem* out) {
    const uint32_t held = count.load(std::memory_order_relaxed);
    if (held == 0) return false;
    *out = items[held - 1];
    count.store(held - 1, std::memory_order_relaxed);
    return true;
  }
  bool push(const PoolItem& item) {
    const uint32_t held = count.load(std::memory_order_relaxed);
    if (held >= capacity) return false;
    items[held] = item;
    count.store(held + 1, std::memory_order_relaxed);
    return true;
  }
  // Removes the oldest ones, at most `most`: what was used last stays.
  uint32_t remove_oldest(PoolItem* out, uint32_t most) {
    const uint32_t held = count.load(std::memory_order_relaxed);
    const uint32_t removed = held < most ? held : most;
    for (uint32_t i = 0; i < removed; ++i) out[i] = items[i];
    for (uint32_t i = removed; i < held; ++i) items[i - removed] = items[i];
    count.store(held - removed, std::memory_order_relaxed);
    return removed;
  }

  std::atomic<uint32_t> busy{0};
  std::atomic<uint32_t> revoked{0};
  std::atomic<uint32_t> count{0};  // others may read it at any time
  uint32_t capacity = 0;
  // Under FreeBuffers::members_.
  Stock* next = nullptr;
  Stock* previous = nullptr;
  std::atomic<Stock*>* place = nullptr;  // where its thread finds it
  PoolItem items[kMost];
};

// All stocks of one thread, by the number of the pool. The thread sets entries; closing a pool
// takes them away.
class StockStore;
struct ThreadStocks {
  static constexpr size_t kMaxPools = 256;
  StockStore* store = nullptr;
  std::atomic<Stock*> of[kMaxPools] = {};

  // initial-exec: the general model may call malloc at a thread's first use.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local ThreadStocks* mine =
      nullptr;

  static Stock* find(uint32_t pool) {
    return mine == nullptr ? nullptr : mine->of[pool].load(std::memory_order_relaxed);
  }
};

}  // namespace rdmalloc
