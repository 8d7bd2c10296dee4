// A program unmaps, replaces or shuts buffers of its pool, free ones and ones that it uses: every
// buffer that is handed out and every key that is found is right, byte by byte.
//
//   pool_holes ROUNDS [naive]
//     naive: a pool as programs write them, a stack of buffers with the keys that they had at the
//     start. The control.
#include <sys/mman.h>

#include <thread>
#include <vector>

#include "include/rdmalloc/pool.h"
#include "tests/integration/regcache/uring_device.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

using probe::kPage;

const size_t kBytes = 3 * kPage;
constexpr size_t kBuffers = 256;

probe::Verdict verdict;

class Buffers {
 public:
  virtual ~Buffers() = default;
  virtual bool get(rdm_buffer* out) = 0;
  virtual void put(void* address) = 0;
  virtual bool key(void* address, uint32_t* out) = 0;
};

class PoolBuffers final : public Buffers {
 public:
  explicit PoolBuffers(rdm_domain* domain) {
    probe::PoolOptions options;
    options.buffer_bytes = kBytes;
    options.alignment = kPage;
    options.reserve = kBuffers;
    options.most = kBuffers;
    if (rdm_pool_create(domain, &options, &pool_) != RDM_OK) probe::refused(options.why);
  }
  ~PoolBuffers() override {
    if (rdm_pool_close(pool_) != RDM_OK) verdict.broken("closing: %s", rdm_last_error());
  }
  PoolBuffers(const PoolBuffers&) = delete;
  PoolBuffers& operator=(const PoolBuffers&) = delete;

  rdm_pool* pool() const { return pool_; }
  bool get(rdm_buffer* out) override { return rdm_pool_get(pool_, out) == RDM_OK; }
  void put(void* address) override {
    if (rdm_pool_put(pool_, address) != RDM_OK) verdict.broken("a put: %s", rdm_last_error());
  }
  bool key(void* address, uint32_t* out) override {
    rdm_mr mr{};
    const int status = rdm_pool_key(pool_, address, &mr);
    *out = mr.lkey;
    if (status != RDM_OK && rdm_last_error()[0] == '\0') verdict.broken("no sentence says why");
    return status == RDM_OK;
  }

 private:
  rdm_pool* pool_ = nullptr;
};

class NaiveBuffers final : public Buffers {
 public:
  explicit NaiveBuffers(rdm_domain* domain) {
    for (size_t i = 0; i < kBuffers; ++i) {
      rdm_buffer buffer{};
      buffer.address = rdm_alloc(kBytes, kPage, 0);
      buffer.length = kBytes;
      rdm_mr mr{};
      if (rdm_lookup(domain, buffer.address, kBytes, &mr) != RDM_OK) probe::refused("no key");
      buffer.lkey = mr.lkey;
      all_.push_back(buffer);
    }
    free_ = all_;
  }
  bool get(rdm_buffer* out) override {
    if (free_.empty()) return false;
    *out = free_.back();
    free_.pop_back();
    return true;
  }
  void put(void* address) override {
    for (const rdm_buffer& buffer : all_) {
      if (buffer.address == address) free_.push_back(buffer);
    }
  }
  bool key(void* address, uint32_t* out) override {
    for (const rdm_buffer& buffer : all_) {
      if (buffer.address == address) *out = buffer.lkey;
    }
    return true;
  }

 private:
  std::vector<rdm_buffer> all_;
  std::vector<rdm_buffer> free_;
};

// Replaces pages of a buffer; what lies there then can be read and written, so that a pool that
// hands it out is found out by its bytes.
void replace(char* at, size_t bytes) {
  if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
      at) {
    verdict.broken("mmap: %s", strerror(errno));
  }
}

class Program {
 public:
  Program(Buffers& buffers, probe::Device& device) : buffers_(buffers), device_(device) {}

  void run(size_t rounds) {
    for (size_t i = 0; i < rounds && verdict.count() == 0; ++i) {
      if (held_.size() < kBuffers / 2 && random_.below(2) == 0) {
        rdm_buffer buffer{};
        if (!buffers_.get(&buffer)) return verdict.broken("no buffer: %s", rdm_last_error());
        transfer(buffer.address, buffer.lkey);
        held_.push_back(buffer.address);
      } else if (!held_.empty()) {
        void* const address = take();
        change(static_cast<char*>(address));
        buffers_.put(address);
      }
      if (!held_.empty()) look(held_[random_.below(held_.size())]);
    }
    while (!held_.empty()) buffers_.put(take());
  }

 private:
  void* take() {
    const size_t which = random_.below(held_.size());
    void* const address = held_[which];
    held_[which] = held_.back();
    held_.pop_back();
    return address;
  }

  // One message out and one in.
  void transfer(void* address, uint32_t key) {
    const probe::Pattern out(random_.next());
    out.fill(address, kBytes);
    if (device_.send(key, address, kBytes) != 0 || out.mismatch(device_.peer(), kBytes) != kBytes) {
      verdict.broken("the peer gets other bytes than the program wrote");
    }
    const probe::Pattern in(random_.next());
    in.fill(device_.peer(), kBytes);
    if (device_.receive(key, address, kBytes) != 0 || in.mismatch(address, kBytes) != kBytes) {
      verdict.broken("the program sees other bytes than the peer sent");
    }
  }

  // A buffer in use, part of which may have been replaced.
  void look(void* address) {
    if (random_.below(64) == 0) replace(static_cast<char*>(address) + kPage, kPage);
    uint32_t key = 0;
    if (buffers_.key(address, &key)) transfer(address, key);
  }

  // Just before it is put back.
  void change(char* at) {
    const uint64_t what = random_.below(48);
    if (what == 0) replace(at, kBytes);
    if (what == 1) replace(at + 2 * kPage, kPage);
    if (what == 2 && mprotect(at + kPage, kPage, PROT_NONE) != 0) verdict.broken("mprotect fails");
  }

  Buffers& buffers_;
  probe::Device& device_;
  probe::Random random_{1};
  std::vector<void*> held_;
};

// Gets and puts beside them, from a stock of its own.
void use(rdm_pool* pool, std::atomic<bool>& is_over) {
  while (!is_over) {
    rdm_buffer buffer{};
    if (rdm_pool_get(pool, &buffer) != RDM_OK) return verdict.broken("%s", rdm_last_error());
    memset(buffer.address, 1, buffer.length);
    if (rdm_pool_put(pool, buffer.address) != RDM_OK) return verdict.broken("%s", rdm_last_error());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const size_t rounds = argc > 1 ? strtoul(argv[1], nullptr, 10) : 20000;
  probe::Device device(kBytes);
  rdm_domain* const domain = probe::open_domain(device.ring_fd(), verdict);
  if (domain == nullptr) return verdict.status();
  if (argc > 2) {
    NaiveBuffers naive(domain);
    Program(naive, device).run(rounds);
    return verdict.status();
  }
  {
    PoolBuffers buffers(domain);
    std::atomic<bool> is_over{false};
    std::thread other([&] { use(buffers.pool(), is_over); });
    Program(buffers, device).run(rounds);
    is_over = true;
    other.join();
  }
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the domain");
  return verdict.status();
}
