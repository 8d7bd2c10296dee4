// Pools and a device: transfers with the key that came with a buffer are right, byte by byte, while
// the heap grows and threads come and go; and they cause no registrations.
//
//   pool_traffic keys [ROUNDS] [wrong]     wrong: each key is another's, a control
//   pool_traffic steady [ROUNDS] [kept]    kept: nothing is put back, a control
#include <time.h>

#include <thread>
#include <vector>

#include "include/rdmalloc/pool.h"
#include "tests/integration/regcache/uring_device.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kBytes = 3000;

probe::Verdict verdict;

rdm_pool* create(rdm_domain* domain, size_t reserve, size_t most) {
  probe::PoolOptions options;
  options.buffer_bytes = kBytes;
  options.reserve = reserve;
  options.most = most;
  rdm_pool* pool = nullptr;
  const int status = rdm_pool_create(domain, &options, &pool);
  if (status != RDM_OK) verdict.broken("creating a pool: status %d: %s", status, options.why);
  return pool;
}

rdm_pool_counts counts(rdm_pool* pool) {
  rdm_pool_counts now{};
  if (rdm_pool_stats(pool, &now, sizeof now) != RDM_OK) verdict.broken("no counts");
  return now;
}

void close(rdm_pool* pool) {
  if (rdm_pool_close(pool) != RDM_OK) verdict.broken("closing the pool: %s", rdm_last_error());
}

// One message out and one in, with the buffer's key.
void transfer(probe::Device& device, const rdm_buffer& buffer, uint32_t key, uint64_t seed) {
  const probe::Pattern out(seed);
  out.fill(buffer.address, buffer.length);
  if (device.send(key, buffer.address, buffer.length) != 0 ||
      out.mismatch(device.peer(), buffer.length) != buffer.length) {
    verdict.broken("the peer got other bytes, or none, by key %u", key);
  }
  const probe::Pattern in(~seed);
  in.fill(device.peer(), buffer.length);
  if (device.receive(key, buffer.address, buffer.length) != 0 ||
      in.mismatch(buffer.address, buffer.length) != buffer.length) {
    verdict.broken("other bytes, or none, were received by key %u", key);
  }
}

void check_keys(uint64_t rounds, bool wrong) {
  probe::Device device(kBytes);
  rdm_domain* domain = probe::open_domain(device.ring_fd(), verdict);
  if (domain == nullptr) return;
  rdm_pool* pool = create(domain, 16, 0);
  if (pool == nullptr) return;
  probe::Random random(1);
  std::vector<rdm_buffer> held;
  for (uint64_t i = 0; i < rounds && verdict.count() == 0; ++i) {
    if (held.size() < 64 && random.below(2) == 0) {
      rdm_buffer buffer{};
      if (rdm_pool_get(pool, &buffer) != RDM_OK) {
        verdict.broken("no buffer: %s", rdm_last_error());
        break;
      }
      rdm_mr looked_up{};
      if (rdm_lookup(domain, buffer.address, buffer.length, &looked_up) != RDM_OK ||
          looked_up.lkey != buffer.lkey) {
        verdict.broken("the key is not what a lookup finds");
      }
      rdm_mr of_pool{};
      const char* const middle = static_cast<char*>(buffer.address) + buffer.length / 2;
      if (rdm_pool_key(pool, middle, &of_pool) != RDM_OK || of_pool.lkey != buffer.lkey) {
        verdict.broken("the key of a buffer's middle is not its buffer's");
      }
      transfer(device, buffer, buffer.lkey + (wrong ? 1 : 0), random.next());
      held.push_back(buffer);
    } else if (!held.empty()) {
      const size_t which = random.below(held.size());
      if (rdm_pool_put(pool, held[which].address) != RDM_OK) verdict.broken("a put is refused");
      held[which] = held.back();
      held.pop_back();
    }
    if (i % 1000 == 0) probe::grow(size_t{64} << 10);
  }
  for (const rdm_buffer& buffer : held) rdm_pool_put(pool, buffer.address);
  close(pool);
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the domain");
}

// Threads that get, put, and end with buffers in stock, one generation after the other.
void run_generation(rdm_pool* pool, uint64_t rounds, bool kept) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([=] {
      rdm_buffer held[32];
      for (uint64_t round = 0; round < rounds; round += 32) {
        for (rdm_buffer& buffer : held) {
          if (rdm_pool_get(pool, &buffer) != RDM_OK) return verdict.broken("no buffer");
          memset(buffer.address, i, buffer.length);
        }
        for (rdm_buffer& buffer : held) {
          if (!kept && rdm_pool_put(pool, buffer.address) != RDM_OK) verdict.broken("no put");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void check_steady(uint64_t rounds, bool kept) {
  rdm_domain* domain = probe::open_domain(-1, verdict);
  if (domain == nullptr) return;
  rdm_pool* pool = create(domain, 1024, 0);
  if (pool == nullptr) return;
  constexpr uint64_t kGenerations = 10;
  run_generation(pool, rounds / 4 / kGenerations, kept);
  const rdm_pool_counts before = counts(pool);
  const rdm_stats books = probe::stats();
  for (uint64_t i = 1; i < kGenerations; ++i) run_generation(pool, rounds / 4 / kGenerations, kept);
  const rdm_pool_counts after = counts(pool);
  const rdm_stats now = probe::stats();
  printf("%lu buffers, %lu chunks; %lu registrations\n", after.held, after.grown,
         now.registrations);
  if (after.held != before.held)
    verdict.broken("the pool grew from %lu to %lu", before.held, after.held);
  if (after.out != 0) verdict.broken("%lu buffers are lost", after.out);
  if (now.held_bytes != books.held_bytes) verdict.broken("the heap grew");
  if (now.registrations != books.registrations) verdict.broken("something was registered");
  if (kept) return;
  close(pool);
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the domain");
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const bool control = argc > 3;
  if (argc > 1 && strcmp(argv[1], "keys") == 0) {
    check_keys(probe::argument(argc, argv, 2, 20000), control);
  } else {
    check_steady(probe::argument(argc, argv, 2, 1000000), control);
  }
  return verdict.status();
}
