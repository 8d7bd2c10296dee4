// A program that registers its buffers with the real libfabric for each message, in memory that it
// unmaps and maps again at the same address, and from malloc: its peer must receive what was sent
// last.
//
//   ofi_stale PROVIDER ADDRESS ROUNDS [trusting]
//
// trusting: imports a memory monitor that reports no change, ever. With a provider that caches
// registrations, old bytes then arrive.
#include <rdma/fi_ext.h>
#include <sys/mman.h>

#include "tests/integration/regcache/preload/ofi/ofi_import.h"
#include "tests/integration/regcache/preload/ofi/ofi_pair.h"

namespace {

constexpr size_t kBytes = size_t{64} << 10;

probe::Verdict verdict;

void trust_everything() {
  fid* cache = nullptr;
  probe::need(fi_open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &cache, nullptr), "fi_open");
  probe::need(fi_import_fid(cache, probe::monitor_that_says<true>(), 0), "fi_import_fid");
  (void)fi_close(cache);
}

unsigned char* map(void* at) {
  void* memory = mmap(at, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  if (memory == MAP_FAILED) probe::skip("out of memory");
  return static_cast<unsigned char*>(memory);
}

fid_mr* add(probe::OfiPair& pair, void* address, size_t length, uint64_t access) {
  static uint64_t key = 1;
  fid_mr* mr = nullptr;
  probe::need(fi_mr_reg(pair.domain(), address, length, access, 0, key++, 0, &mr, nullptr),
              "fi_mr_reg");
  return mr;
}

// A message, as an MPI library sends it.
void send(probe::OfiPair& pair, unsigned char* bytes, size_t length, int fill,
          const probe::OfiMemory& peer) {
  memset(bytes, fill, length);
  fid_mr* mr = add(pair, bytes, length, FI_WRITE | FI_SEND);
  if (!pair.write({bytes, mr, bytes}, peer, length)) verdict.broken("a write failed");
  if (memcmp(bytes, peer.address, length) != 0) {
    verdict.broken("%zu bytes of message %d: the peer has others", length, fill);
  }
  probe::need(fi_close(&mr->fid), "closing a memory region");
}

void send_all(probe::OfiPair& pair, uint64_t rounds) {
  unsigned char* target = map(nullptr);
  const probe::OfiMemory peer{target, add(pair, target, kBytes, FI_REMOTE_WRITE), target};
  unsigned char* own = map(nullptr);
  probe::Random random(5);
  for (uint64_t i = 0; i < rounds; ++i) {
    const int fill = static_cast<int>(i % 250);
    munmap(own, kBytes);
    (void)map(own);
    send(pair, own, kBytes, fill + 1, peer);
    send(pair, own, kBytes, fill + 2, peer);
    const size_t length = random.size_between(4096, kBytes);
    auto* message = static_cast<unsigned char*>(malloc(length));
    send(pair, message, length, fill + 3, peer);
    free(message);
  }
  munmap(own, kBytes);
  probe::need(fi_close(&peer.mr->fid), "closing a memory region");
  munmap(target, kBytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 4 && strcmp(argv[4], "trusting") == 0) trust_everything();
  {
    probe::OfiPair pair(argc > 1 ? argv[1] : "tcp", argc > 2 ? argv[2] : "127.0.0.1");
    send_all(pair, probe::argument(argc, argv, 3, 100));
  }
  return verdict.status();
}
