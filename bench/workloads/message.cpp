// Messages: allocate a buffer, fill it, send it by its key, free it; repeatedly.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <vector>

#include "bench/peers/ucx_cache.h"
#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"
#include "bench/workloads/ring.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kSmallest = size_t{64} << 10;
constexpr size_t kLargest = size_t{64} << 20;

// How a buffer gets its key. registrations(): how many were made so far.
class Keys {
 public:
  explicit Keys(Ring& ring) : ring_(ring) {}
  virtual ~Keys() = default;
  virtual uint32_t get(void* buffer, size_t length) = 0;
  virtual void put() = 0;
  virtual size_t registrations() const { return ring_.registrations(); }

 protected:
  Ring& ring_;
};

class Looked : public Keys {
 public:
  explicit Looked(Ring& ring) : Keys(ring), domain_(library().open_io_uring(ring.fd())) {}
  uint32_t get(void* buffer, size_t length) override {
    rdm_mr mr{};
    const int status = library().lookup(domain_, buffer, length, &mr);
    if (status != RDM_OK) fail("rdm_lookup", "the buffer is not registered");
    return mr.lkey;
  }
  void put() override {}
  size_t registrations() const override { return library().stats().registrations; }

 private:
  const rdm_domain* domain_;
};

class EachTime : public Keys {
 public:
  explicit EachTime(Ring& ring) : Keys(ring) { ring.make_table(1); }
  uint32_t get(void* buffer, size_t length) override {
    ring_.add(0, buffer, length);
    return 0;
  }
  void put() override { ring_.remove(0); }
};

#if BENCH_HAS_UCX
class Cached : public Keys, public Registrar {
 public:
  explicit Cached(Ring& ring) : Keys(ring) {
    ring.make_table(kMost);
    for (uint32_t key = 0; key < kMost; ++key) free_.push_back(key);
    cache_ = std::make_unique<UcxCache>(*this);
  }
  uint32_t get(void* buffer, size_t length) override {
    region_ = cache_->get(buffer, length);
    if (region_ == nullptr) fail("ucs_rcache_get", "the buffer is not registered");
    return region_->key;
  }
  void put() override { cache_->put(region_); }

 private:
  static constexpr uint32_t kMost = 1024;

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

  std::vector<uint32_t> free_;
  std::unique_ptr<UcxCache> cache_;
  const UcxCache::Region* region_ = nullptr;
};
#endif

std::unique_ptr<Keys> keys_of(const char* kind, Ring& ring) {
  if (strcmp(kind, "lookup") == 0) return std::make_unique<Looked>(ring);
  if (strcmp(kind, "each") == 0) return std::make_unique<EachTime>(ring);
#if BENCH_HAS_UCX
  if (strcmp(kind, "ucx") == 0) return std::make_unique<Cached>(ring);
#endif
  fail(kind, "not a way to get keys: lookup, each, ucx (if built with libucx-dev)");
}

// Always the same size; for 0, all sizes, equally many per doubling.
std::vector<size_t> sizes_of(size_t bytes) {
  constexpr size_t kMixed = 64;
  if (bytes != 0) return {bytes};
  Random random(3);
  std::vector<size_t> sizes;
  const double doublings = std::log2(static_cast<double>(kLargest) / kSmallest);
  for (size_t i = 0; i < kMixed; ++i) {
    const double unit = static_cast<double>(random.below(1 << 20)) / (1 << 20);
    sizes.push_back(static_cast<size_t>(kSmallest * std::exp2(doublings * unit)));
  }
  return sizes;
}

class Sender {
 public:
  explicit Sender(const char* kind) : keys_(keys_of(kind, ring_)) {
    if (sink_ < 0) fail("/dev/null", "cannot be opened");
  }

  void message(size_t size) {
    void* buffer = malloc(size);
    if (buffer == nullptr) fail("malloc", "no memory");
    memset(buffer, ++round_ & 0xff, size);
    const uint32_t key = keys_->get(buffer, size);
    ring_.send(sink_, buffer, size, key);
    keys_->put();
    free(buffer);
  }

  // Sends one message to a file that can be read back; exits if the device did not see what the
  // program wrote.
  void prove(size_t size) {
    const int null = sink_;
    sink_ = memfd_create("received", MFD_CLOEXEC);
    message(size);
    void* received = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, sink_, 0);
    if (received == MAP_FAILED) fail("mmap", "the message cannot be read");
    const auto* bytes = static_cast<const unsigned char*>(received);
    for (size_t i = 0; i < size; ++i) {
      if (bytes[i] != (round_ & 0xff)) fail("a message", "other bytes arrived than were sent");
    }
    munmap(received, size);
    close(sink_);
    sink_ = null;
  }

  size_t registrations() const { return keys_->registrations(); }

 private:
  Ring ring_;
  std::unique_ptr<Keys> keys_;
  int sink_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
  unsigned round_ = 0;
};

}  // namespace

// The first rounds are not measured: there, registration caches make their registrations.
void run_message(const Arguments& arguments, Meter& meter) {
  constexpr size_t kWarmUp = 3;
  constexpr size_t kBytes = size_t{640} << 20;  // about this many for each size
  const std::vector<size_t> sizes = sizes_of(arguments.bytes);
  Sender sender(arguments.kind);
  sender.prove(sizes.front());
  for (size_t i = 0; i < kWarmUp; ++i) {
    for (const size_t size : sizes) sender.message(size);
  }
  const size_t rounds = arguments.short_form || arguments.bytes == 0 ? 1 : kBytes / arguments.bytes;
  const size_t before = sender.registrations();
  meter.start();
  for (size_t i = 0; i < rounds; ++i) {
    for (const size_t size : sizes) sender.message(size);
  }
  meter.stop();
  report("registrations", sender.registrations() - before);
  report("messages", rounds * sizes.size());
}

}  // namespace rdmalloc::bench
