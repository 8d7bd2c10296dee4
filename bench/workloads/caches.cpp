#include "bench/workloads/caches.h"

#include <stdio.h>
#include <string.h>

#include <vector>

#include "bench/peers/free_device.h"
#include "bench/peers/ucx_cache.h"
#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

class NoCache : public Cache {
 public:
  void get_and_put(void*, size_t) override {}
};

class Ours : public Cache {
 public:
  explicit Ours(rdm_domain* domain) : domain_(domain) {
    if (library().get == nullptr) fail("rdm_get", "rdmalloc is not there");
  }
  void get_and_put(void* buffer, size_t length) override {
    rdm_mr mr{};
    if (library().get(domain_, buffer, length, &mr) != RDM_OK) {
      fail("rdm_get", library().last_error());
    }
    if (library().put(domain_, &mr) != RDM_OK) fail("rdm_put", library().last_error());
  }

 private:
  rdm_domain* domain_;
};

#if BENCH_HAS_UCX
class Ucx : public Cache {
 public:
  explicit Ucx(Registrar& registrar) : cache_(registrar) {}
  void get_and_put(void* buffer, size_t length) override {
    const UcxCache::Region* region = cache_.get(buffer, length);
    if (region == nullptr) fail("ucs_rcache_get", "refuses a buffer");
    cache_.put(region);
  }

 private:
  UcxCache cache_;
};

// Hands out the keys of a ring's table.
class RingRegistrar : public Registrar {
 public:
  RingRegistrar() {
    ring_.make_table(kKeys);
    for (uint32_t key = 0; key < kKeys; ++key) free_.push_back(key);
  }
  bool add(void* base, size_t length, uint32_t* key) override {
    if (free_.empty()) return false;
    *key = free_.back();
    free_.pop_back();
    ring_.add(*key, base, length);
    return true;
  }
  void remove(uint32_t key) override {
    ring_.remove(key);
    free_.push_back(key);
  }

 private:
  static constexpr uint32_t kKeys = 1024;
  Ring ring_;
  std::vector<uint32_t> free_;
};
#endif

}  // namespace

std::unique_ptr<Cache> cache_on_free_device(const char* kind) {
  if (strcmp(kind, "none") == 0) return std::make_unique<NoCache>();
  if (strcmp(kind, "rdmalloc") == 0) {
    return std::make_unique<Ours>(library().open(free_backend()));
  }
#if BENCH_HAS_UCX
  if (strcmp(kind, "ucx") == 0) return std::make_unique<Ucx>(free_registrar());
#endif
  fail(kind, "not a cache: rdmalloc, none, ucx (if built with libucx-dev)");
}

std::unique_ptr<Cache> cache_on_io_uring(const char* kind) {
  if (strcmp(kind, "pinning") == 0) return std::make_unique<Ours>(library().open_io_uring(-1));
  if (strcmp(kind, "rdmalloc") == 0) {
    static Ring ring;
    return std::make_unique<Ours>(library().open_io_uring(ring.fd()));
  }
#if BENCH_HAS_UCX
  static RingRegistrar registrar;
  if (strcmp(kind, "ucx") == 0) return std::make_unique<Ucx>(registrar);
#endif
  fail(kind, "not a cache: rdmalloc, pinning, ucx (if built with libucx-dev)");
}

void report_monitor() {
  if (library().monitor != nullptr) printf("monitor %s\n", library().monitor(nullptr));
}

}  // namespace rdmalloc::bench
