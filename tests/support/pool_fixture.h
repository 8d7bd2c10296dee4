// Pools over a test's own heap, registered with a fake device.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "allocator/last_error.h"
#include "regcache/domain/registry.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/pool/pools.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_process_barrier.h"
#include "tests/support/test_heap.h"
#include "tests/support/test_heap_source.h"

namespace rdmalloc::fake {

// Chunks come from the heap; the pools' bookkeeping from the test's malloc, so that sanitizers
// watch it. Thread-safe.
class HeapPoolMemory final : public rdmalloc::PoolMemory {
 public:
  explicit HeapPoolMemory(TestHeap& heap) : heap_(&heap) {}
  // Frees what pools hold that a test did not close; tests of leaks use blocks().
  ~HeapPoolMemory() {
    for (const auto& [address, block] : sizes_) {
      if (block.bytes == 0 && !block.exposed) ::free(address);
    }
  }
  HeapPoolMemory(const HeapPoolMemory&) = delete;
  HeapPoolMemory& operator=(const HeapPoolMemory&) = delete;

  // The k-th allocation from now on fails; 0: none.
  void fail(size_t k) { countdown_ = k; }
  void fail_all(bool fails) { all_fail_ = fails; }
  size_t blocks() const {
    const std::lock_guard hold(mutex_);
    return sizes_.size();
  }

  void* allocate(size_t size, size_t alignment, unsigned flags) noexcept override {
    const std::lock_guard hold(mutex_);
    if (all_fail_ || (countdown_ != 0 && --countdown_ == 0)) return nullptr;
    void* got = nullptr;
    const size_t rounded = os::page_ceil(size);
    const bool exposed = (flags & RDM_EXPOSED) != 0;
    if (alignment < Chunk::kUnit) {
      got = ::malloc(size);
    } else if (exposed) {
      got = (*heap_)->blocks().allocate_exposed(rounded, alignment);
    } else {
      got = heap_->take(rounded, alignment);
    }
    const size_t of_heap = alignment < Chunk::kUnit || exposed ? 0 : rounded;
    if (got != nullptr) sizes_[got] = {of_heap, exposed};
    return got;
  }
  void release(void* pointer) noexcept override {
    if (pointer == nullptr) return;
    const std::lock_guard hold(mutex_);
    const auto found = sizes_.find(pointer);
    if (found == sizes_.end()) abort();
    if (found->second.exposed) {
      (void)(*heap_)->blocks().release(pointer);
    } else if (found->second.bytes != 0) {
      (void)heap_->give(pointer, found->second.bytes);
    } else {
      ::free(pointer);
    }
    sizes_.erase(found);
  }
  int lookup(rdm_domain* domain, const void* address, size_t length,
             rdm_mr* out) noexcept override {
    return Domain::lookup(reinterpret_cast<Domain*>(domain), address, length, out);
  }
  rdm_stats stats() noexcept override {
    rdm_stats books{};
    books.budget_bytes = (*heap_)->budget().pin_limit().bytes();
    books.memory_cap_bytes = (*heap_)->budget().memory().cap();
    return books;
  }
  bool hold(rdm_domain* domain) noexcept override {
    return reinterpret_cast<Domain*>(domain)->hold();
  }
  void let_go(rdm_domain* domain) noexcept override { reinterpret_cast<Domain*>(domain)->let_go(); }
  bool takes_pinned_only(rdm_domain* domain) noexcept override {
    const rdm_backend_limits& limits = reinterpret_cast<Domain*>(domain)->parts().device.limits();
    return (limits.abilities & RDM_BACKEND_ON_DEMAND) == 0;
  }
  bool takes_exposed_only(rdm_domain* domain) noexcept override {
    return reinterpret_cast<Domain*>(domain)->parts().mrs.is_exposed_only();
  }
  const char* why(rdm_domain* domain) noexcept override {
    return reinterpret_cast<Domain*>(domain)->why();
  }
  const Window& window() const noexcept override { return (*heap_)->window(); }
  const Region* region_of(const void* address) const noexcept override {
    return (*heap_)->regions().find(address);
  }
  const PageMarks& marks() const noexcept override { return (*heap_)->marks(); }
  bool attach(RegionObserver* observer) noexcept override {
    return ok((*heap_)->publisher().attach(observer));
  }
  void reopen(void* address, size_t length) noexcept override {
    const auto from = reinterpret_cast<uintptr_t>(address);
    const uintptr_t start = os::page_floor(from);
    (*heap_)->holes().reopen(start, os::page_ceil(from + length) - start);
  }

 private:
  struct Block {
    size_t bytes;  // from the heap; 0: from malloc
    bool exposed;
  };
  TestHeap* const heap_;
  mutable std::mutex mutex_;
  std::map<void*, Block> sizes_;
  size_t countdown_ = 0;
  bool all_fail_ = false;
};

struct PoolFixture {
  explicit PoolFixture(std::initializer_list<const char*> options = {}) : heap(options) {
    settings.buffer_bytes = 4096;
    settings.alignment = 64;
  }
  ~PoolFixture() {
    pools->stocks().end_thread();
    registry_stop();
    process_barrier.is_there = true;
    process_barrier.works = true;
    changes.note_fork_child();
  }
  PoolFixture(const PoolFixture&) = delete;
  PoolFixture& operator=(const PoolFixture&) = delete;

  // Call once machine() and the options are set.
  void boot() {
    heap.boot();
    source = std::make_unique<TestHeapSource>(*heap);
    registry = std::make_unique<Registry>(*source);
  }
  void open_domain(unsigned flags = 0) {
    const rdm_backend ops = backend.ops();
    rdm_domain_options options{};
    options.size = sizeof options;
    options.flags = flags;
    Domain* opened = nullptr;
    REQUIRE(registry->open(&ops, &backend, &options, &opened) == RDM_OK);
    domain = opened;
    settings.domain = reinterpret_cast<rdm_domain*>(opened);
  }
  Pool* create() {
    Pool* pool = nullptr;
    const int status = try_to_create(&pool);
    INFO(why);
    REQUIRE(status == RDM_OK);
    return pool;
  }
  int try_to_create(Pool** out) {
    Message message;
    const int status = pools->create(settings, out, &message);
    char text[1500];
    message.copy_to(text, sizeof text);
    why = text;
    return status;
  }
  rdm_buffer get(Pool* pool) {
    rdm_buffer buffer{};
    INFO(last_error());
    REQUIRE(Pool::get(pool, &buffer) == RDM_OK);
    check(buffer);
    return buffer;
  }
  // Checks that the buffer is as requested and belongs to nobody else.
  void check(const rdm_buffer& buffer) {
    REQUIRE(buffer.length == settings.buffer_bytes);
    REQUIRE(reinterpret_cast<uintptr_t>(buffer.address) % settings.alignment == 0);
    if (settings.domain != nullptr) {
      rdm_mr mr{};
      REQUIRE(domain->lookup(buffer.address, buffer.length, &mr) == RDM_OK);
      REQUIRE((mr.lkey == buffer.lkey && mr.rkey == buffer.rkey && mr.handle == buffer.handle));
      REQUIRE(backend.covers(mr, buffer.address, buffer.length));
    }
  }
  static rdm_pool_counts counts(Pool* pool) {
    rdm_pool_counts now{};
    REQUIRE(pool->counts(&now) == RDM_OK);
    return now;
  }
  static bool says(const char* part) { return strstr(last_error(), part) != nullptr; }
  void registry_stop() {
    if (registry != nullptr) registry->stop();
  }

  TestHeap heap;
  Backend backend;
  HeapPoolMemory memory{heap};
  std::unique_ptr<TestHeapSource> source;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Pools> pools = std::make_unique<Pools>(memory);
  Domain* domain = nullptr;
  PoolSettings settings;
  std::string why;
};

}  // namespace rdmalloc::fake
