// A program that uses verbs and knows nothing of rdmalloc. For each message it allocates, fills,
// registers, sends, deregisters and frees a buffer; the peer checks every byte.
//
//   messages COUNT           registers for local access
//   messages COUNT remote    registers for remote access, and the peer reads the buffer
//   messages COUNT own MIB   then registers that much memory not from malloc, and sends on
#include <sys/mman.h>

#include "tests/guest/rc_pair.h"
#include "tests/integration/probe.h"

namespace {

constexpr size_t kLargest = size_t{256} << 10;
probe::Verdict verdict;

void send(guest::RcPair& pair, const guest::PeerBuffer& peer, size_t size, int fill, bool remote) {
  auto* bytes = static_cast<unsigned char*>(malloc(size));
  if (bytes == nullptr) probe::refused("out of memory");
  memset(bytes, fill, size);
  const int access = remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ : 0;
  ibv_mr* mr = ibv_reg_mr(pair.domain(), bytes, size, access);
  if (mr == nullptr) return verdict.broken("ibv_reg_mr of %zu bytes: %m", size);
  if (mr->addr != bytes || mr->length != size) verdict.broken("the memory region is another's");
  memset(peer.bytes(), 0, size);
  const ibv_wc_status status = remote ? pair.read(peer.local(size), {bytes, size, mr->rkey})
                                      : pair.write({bytes, size, mr->lkey}, peer.remote(size));
  if (status != IBV_WC_SUCCESS) {
    verdict.broken("%zu bytes: %s", size, ibv_wc_status_str(status));
  } else if (memcmp(bytes, peer.bytes(), size) != 0) {
    verdict.broken("%zu bytes: the peer has others", size);
  }
  if (ibv_dereg_mr(mr) != 0) verdict.broken("ibv_dereg_mr: %m");
  free(bytes);
}

void send_all(guest::RcPair& pair, const guest::PeerBuffer& peer, uint64_t count, bool remote) {
  probe::Random random(7);
  for (uint64_t i = 1; i <= count; ++i) {
    send(pair, peer, random.size_between(16, kLargest), static_cast<int>(i % 255) + 1, remote);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t count = probe::argument(argc, argv, 1, 1000);
  const bool remote = argc > 2 && strcmp(argv[2], "remote") == 0;
  guest::RcPair pair;
  guest::PeerBuffer peer(pair, kLargest);
  send_all(pair, peer, count, remote);
  if (argc > 3 && strcmp(argv[2], "own") == 0) {
    const size_t length = probe::argument(argc, argv, 3, 1) << 20;
    void* own = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ibv_mr* mr = ibv_reg_mr(pair.domain(), own, length, IBV_ACCESS_LOCAL_WRITE);
    if (mr == nullptr) verdict.broken("ibv_reg_mr of %zu bytes of its own: %m", length);
    send_all(pair, peer, count, remote);
    if (mr != nullptr && ibv_dereg_mr(mr) != 0) verdict.broken("ibv_dereg_mr: %m");
  }
  printf("%lu messages, %lu wrong\n", count, verdict.count());
  return verdict.status();
}
