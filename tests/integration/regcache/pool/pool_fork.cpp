// fork with pools: the child is told that it owns no key, may put, close and create its own; the
// parent's device stays right. Also while other threads get and put.
//
//   pool_fork child
//   pool_fork storm SECONDS
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "include/rdmalloc/pool.h"
#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kBytes = 8192;

probe::Verdict verdict;

rdm_pool* create(rdm_domain* domain) {
  rdm_pool_options options{};
  options.size = sizeof options;
  options.buffer_bytes = kBytes;
  options.reserve = 64;
  rdm_pool* pool = nullptr;
  if (rdm_pool_create(domain, &options, &pool) != RDM_OK) {
    verdict.broken("creating a pool: %s", rdm_last_error());
  }
  return pool;
}

void send(probe::Device& device, const rdm_buffer& buffer, uint64_t seed, const char* who) {
  const probe::Pattern pattern(seed);
  pattern.fill(buffer.address, buffer.length);
  if (device.send(buffer.lkey, buffer.address, buffer.length) != 0 ||
      pattern.mismatch(device.peer(), buffer.length) != buffer.length) {
    verdict.broken("%s: the peer got other bytes", who);
  }
}

void use_inherited(rdm_pool* pool, const rdm_buffer& held) {
  rdm_buffer none{};
  if (rdm_pool_get(pool, &none) != RDM_NOT_REGISTERED || none.address != nullptr) {
    verdict.broken("the child gets a buffer of its parent's pool");
  }
  if (strstr(rdm_last_error(), "parent") == nullptr) verdict.broken("said: %s", rdm_last_error());
  rdm_mr mr{};
  if (rdm_pool_key(pool, held.address, &mr) != RDM_NOT_REGISTERED) {
    verdict.broken("the child gets a key of its parent's pool");
  }
  memset(held.address, 9, held.length);
  if (rdm_pool_put(pool, held.address) != RDM_OK) verdict.broken("the child cannot put");
  if (rdm_pool_close(pool) != RDM_OK) verdict.broken("the child cannot close");
}

int be_child(rdm_pool* pool, const rdm_buffer& held) {
  use_inherited(pool, held);
  probe::Device device(kBytes);
  rdm_domain* domain = probe::open_domain(device.ring_fd(), verdict);
  rdm_pool* own = domain == nullptr ? nullptr : create(domain);
  if (own != nullptr) {
    rdm_buffer buffer{};
    if (rdm_pool_get(own, &buffer) != RDM_OK) verdict.broken("the child's own pool is empty");
    send(device, buffer, 5, "the child, of its own pool");
    if (rdm_pool_put(own, buffer.address) != RDM_OK || rdm_pool_close(own) != RDM_OK) {
      verdict.broken("the child's own pool does not end: %s", rdm_last_error());
    }
  }
  if (domain != nullptr) probe::domains().close(domain);
  return verdict.status();
}

void check_child() {
  probe::Device device(kBytes);
  rdm_domain* domain = probe::open_domain(device.ring_fd(), verdict);
  rdm_pool* pool = domain == nullptr ? nullptr : create(domain);
  if (pool == nullptr) return;
  rdm_buffer held{};
  if (rdm_pool_get(pool, &held) != RDM_OK) return verdict.broken("no buffer");
  send(device, held, 1, "the parent");
  const pid_t child = probe::start_child([&] { return be_child(pool, held); });
  send(device, held, 2, "the parent beside its child");
  verdict.expect_good_end("the child", probe::end_of(child));
  send(device, held, 3, "the parent after its child");
  rdm_buffer second{};
  if (rdm_pool_get(pool, &second) != RDM_OK) return verdict.broken("no second buffer");
  send(device, second, 4, "the parent, by another buffer");
  rdm_pool_put(pool, held.address);
  rdm_pool_put(pool, second.address);
  if (rdm_pool_close(pool) != RDM_OK) verdict.broken("the parent cannot close");
  probe::domains().close(domain);
}

void storm(uint64_t seconds) {
  alarm(static_cast<unsigned>(seconds) + 60);
  rdm_domain* domain = probe::open_domain(-1, verdict);
  rdm_pool* pool = domain == nullptr ? nullptr : create(domain);
  if (pool == nullptr) return;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      probe::Random random(i + 1);
      while (!done) {
        std::vector<rdm_buffer> some(1 + random.below(200));
        for (rdm_buffer& buffer : some) {
          if (rdm_pool_get(pool, &buffer) != RDM_OK) return verdict.broken("no buffer");
        }
        for (const rdm_buffer& buffer : some) {
          if (rdm_pool_put(pool, buffer.address) != RDM_OK) verdict.broken("no put");
        }
      }
    });
  }
  uint64_t children = 0;
  rdm_buffer held{};
  if (rdm_pool_get(pool, &held) != RDM_OK) verdict.broken("no buffer");
  const time_t end = time(nullptr) + static_cast<time_t>(seconds);
  for (; time(nullptr) < end && verdict.count() == 0; ++children) {
    const probe::ChildEnd child = probe::run_child([&] {
      use_inherited(pool, held);
      rdm_pool* own = create(nullptr);
      void* address = rdm_pool_get_address(own);
      if (address == nullptr || rdm_pool_put(own, address) != RDM_OK) verdict.broken("own pool");
      if (rdm_pool_close(own) != RDM_OK) verdict.broken("closing its own");
      return verdict.status();
    });
    verdict.expect_good_end("a child", child);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  rdm_pool_put(pool, held.address);
  if (rdm_pool_close(pool) != RDM_OK) verdict.broken("closing: %s", rdm_last_error());
  printf("%lu children\n", children);
  if (children == 0) verdict.broken("nothing happened");
  probe::domains().close(domain);
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  if (argc > 1 && strcmp(argv[1], "storm") == 0) {
    storm(probe::argument(argc, argv, 2, 3));
  } else {
    check_child();
  }
  return verdict.status();
}
