// Pools of buffers with a real RDMA device, and on two NUMA nodes.
//
//   pools keys            a buffer is sent correctly with its lkey; a peer reaches exposed buffers,
//                         and no others, with their rkey
//   pools numa            a thread's buffers lie on its node, even after other threads returned
//                         them
#include <sys/syscall.h>

#include <vector>

#include "include/rdmalloc/pool.h"
#include "tests/guest/keys.h"
#include "tests/guest/on_node.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kSize = size_t{16} << 10;
constexpr size_t kBuffers = 64;
probe::Verdict verdict;

using guest::kNodes;
using guest::on_node;
using Buffers = std::vector<rdm_buffer>;

struct PoolLibrary {
  decltype(rdm_pool_create)* create = probe::symbol<decltype(rdm_pool_create)>("rdm_pool_create");
  decltype(rdm_pool_close)* close = probe::symbol<decltype(rdm_pool_close)>("rdm_pool_close");
  decltype(rdm_pool_get)* get = probe::symbol<decltype(rdm_pool_get)>("rdm_pool_get");
  decltype(rdm_pool_put)* put = probe::symbol<decltype(rdm_pool_put)>("rdm_pool_put");
};
PoolLibrary pools;

rdm_pool* create(rdm_domain* domain, unsigned flags) {
  probe::PoolOptions options(flags);
  options.buffer_bytes = kSize;
  options.alignment = probe::kPage;
  options.grow_by = kBuffers;
  rdm_pool* pool = nullptr;
  if (pools.create(domain, &options, &pool) == RDM_OK) return pool;
  printf("BROKEN: no pool: %s\n", options.why);
  exit(probe::kBroken);
}

Buffers take(rdm_pool* pool) {
  Buffers taken(kBuffers);
  for (rdm_buffer& buffer : taken) {
    if (pools.get(pool, &buffer) != RDM_OK) verdict.broken("no buffer");
  }
  return taken;
}

void give_back(rdm_pool* pool, const Buffers& all) {
  for (const rdm_buffer& buffer : all) {
    if (pools.put(pool, buffer.address) != RDM_OK) verdict.broken("no put");
  }
}

void check_keys(unsigned flags, ibv_wc_status reached) {
  guest::RcPair pair;
  guest::PeerBuffer peer(pair, kSize);
  rdm_domain* domain = guest::open_domain(pair, guest::kAllRights, 0);
  rdm_pool* pool = create(domain, flags);
  const Buffers all = take(pool);
  unsigned char fill = 0;
  for (const rdm_buffer& buffer : all) {
    memset(buffer.address, ++fill, kSize);
    const guest::Piece mine{buffer.address, kSize, buffer.lkey};
    if (pair.send(mine, peer.local(kSize)) != IBV_WC_SUCCESS ||
        memcmp(peer.bytes(), buffer.address, kSize) != 0) {
      verdict.broken("the peer got other bytes, or none, by lkey %#x", buffer.lkey);
    }
  }
  const rdm_buffer& target = all[kBuffers / 2];
  memset(peer.bytes(), 0xEE, kSize);
  const guest::Piece theirs{target.address, kSize, target.rkey};
  const ibv_wc_status status = pair.write(peer.local(kSize), theirs);
  const bool written = memcmp(target.address, peer.bytes(), kSize) == 0;
  printf("a peer's write by rkey: %s\n", ibv_wc_status_str(status));
  if (status != reached || written != (reached == IBV_WC_SUCCESS)) {
    verdict.broken("a peer's write by a buffer's rkey: %s", ibv_wc_status_str(status));
  }
  give_back(pool, all);
  if (pools.close(pool) != RDM_OK) verdict.broken("the pool does not close");
  if (guest::domains().close(domain) != RDM_OK) verdict.broken("the domain does not close");
}

void check_nodes(const Buffers& all, int node, const char* what) {
  size_t elsewhere = 0;
  for (const rdm_buffer& buffer : all) {
    void* page = buffer.address;
    *static_cast<volatile char*>(page) = 1;  // pages come on demand, this thread may be anywhere
    int where = -1;
    if (syscall(SYS_move_pages, 0, 1UL, &page, nullptr, &where, 0) != 0) {
      probe::skip("move_pages cannot be asked");
    }
    elsewhere += where == node ? 0 : 1;
  }
  if (elsewhere != 0) verdict.broken("%s: %zu buffers are not on node %d", what, elsewhere, node);
}

void check_numa() {
  if (access("/sys/devices/system/node/node1", F_OK) != 0) probe::skip("there is one NUMA node");
  rdm_pool* pool = create(nullptr, 0);
  Buffers of[kNodes];
  for (int node = 0; node < kNodes; ++node) {
    on_node(node, [&] { of[node] = take(pool); });
    check_nodes(of[node], node, "fresh");
  }
  for (int node = 0; node < kNodes; ++node) on_node(1 - node, [&] { give_back(pool, of[node]); });
  for (int node = 0; node < kNodes; ++node) {
    on_node(node, [&] { of[node] = take(pool); });
    check_nodes(of[node], node, "put back by the other node's thread");
  }
  for (const Buffers& all : of) give_back(pool, all);
  if (pools.close(pool) != RDM_OK) verdict.broken("the pool does not close");
}

}  // namespace

int main(int argc, char** argv) {
  if (pools.create == nullptr) probe::skip("needs the library");
  if (argc > 1 && strcmp(argv[1], "numa") == 0) {
    check_numa();
  } else {
    check_keys(RDM_EXPOSED, IBV_WC_SUCCESS);
    check_keys(0, IBV_WC_REM_ACCESS_ERR);
  }
  return verdict.status();
}
