// Threads that grow the heap, send by key, and open and close their own domains. Each region is
// registered by whoever comes first: the opening of a domain, a library thread or a lookup. Never
// inside malloc, because a driver allocates and takes locks.
//
//   traffic THREADS ROUNDS
#include <thread>
#include <vector>

#include "tests/guest/keys.h"

namespace {

constexpr size_t kLargest = size_t{64} << 10;
constexpr uint64_t kLive = 500;
// How often a domain is closed and reopened.
constexpr uint64_t kReopened = 200;
probe::Verdict verdict;

void send(guest::RcPair& pair, guest::Keys& keys, const guest::PeerBuffer& peer,
          const std::vector<unsigned char>& message) {
  rdm_mr mr{};
  const size_t size = message.size();
  if (!keys.find(message.data(), size, &mr)) return verdict.broken("no key for %zu bytes", size);
  const guest::Piece mine{const_cast<unsigned char*>(message.data()), size, mr.lkey};
  const ibv_wc_status status = pair.write(mine, peer.remote(size));
  if (status != IBV_WC_SUCCESS) return verdict.broken("%s", ibv_wc_status_str(status));
  if (memcmp(message.data(), peer.bytes(), size) != 0) verdict.broken("wrong bytes");
}

void work(uint64_t seed, uint64_t rounds) {
  probe::Random random(seed);
  guest::RcPair pair;
  const guest::PeerBuffer peer(pair, kLargest);
  std::vector<std::vector<unsigned char>> live(kLive);
  for (uint64_t round = 0; round < rounds; round += kReopened) {
    guest::Keys keys(pair);
    for (uint64_t i = 0; i < kReopened; ++i) {
      std::vector<unsigned char>& message = live[random.below(kLive)];
      const size_t size = random.size_between(16, kLargest);
      std::vector<unsigned char>(size, static_cast<unsigned char>(random.next())).swap(message);
      send(pair, keys, peer, message);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("the library is not preloaded");
  const uint64_t threads = probe::argument(argc, argv, 1, 3);
  const uint64_t rounds = probe::argument(argc, argv, 2, 2000);
  std::vector<std::thread> all;
  for (uint64_t i = 1; i <= threads; ++i) all.emplace_back(work, i, rounds);
  for (std::thread& thread : all) thread.join();
  const rdm_stats end = probe::stats();
  printf("%lu regions, %lu registrations, %lu lookups\n", end.regions, end.registrations,
         end.lookups);
  if (end.domains != 0 || end.registered_bytes != 0) verdict.broken("something stays registered");
  if (probe::kib_field("/proc/self/status", "VmPin:") != 0) verdict.broken("memory stays charged");
  return verdict.status();
}
