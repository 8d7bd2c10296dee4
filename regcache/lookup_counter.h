// How many keys were asked for: counted on every hit, so without a lock and without sharing cache
// lines between threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class LookupCounter {
 public:
  constexpr LookupCounter() = default;
  LookupCounter(const LookupCounter&) = delete;
  LookupCounter& operator=(const LookupCounter&) = delete;

  // Exact while at most kShards threads have ever looked up; two that share a shard may lose some.
  void count() {
    std::atomic<uint64_t>& value = shards_[shard()].value;
    value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  uint64_t sum() const {
    uint64_t all = 0;
    for (const Shard& shard : shards_) all += shard.value.load(std::memory_order_relaxed);
    return all;
  }

 private:
  static constexpr uint32_t kShards = 64;

  struct alignas(64) Shard {
    std::atomic<uint64_t> value{0};
  };

  static uint32_t shard() {
    // initial-exec: the general model may call malloc at a thread's first use.
    [[gnu::tls_model("initial-exec")]] static thread_local uint32_t mine = 0;
    static constinit std::atomic<uint32_t> next{0};
    if (mine == 0) [[unlikely]]
      mine = next.fetch_add(1, std::memory_order_relaxed) % kShards + 1;
    return mine - 1;
  }

  Shard shards_[kShards];
};

}  // namespace rdmalloc
