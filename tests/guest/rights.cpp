// What a peer can do with a key: nothing to the heap, anything within the exposed region that the
// key is for, and nothing beyond its end. If the heap is shared by name, anything there too.
//   rights           a domain with remote rights
//   rights share     the same with RDM_DOMAIN_SHARE_HEAP: the heap is open too
#include "tests/guest/keys.h"

namespace {

constexpr size_t kSize = size_t{64} << 10;
constexpr size_t kSent = 256;
probe::Verdict verdict;

class Peer {
 public:
  // A peer tries to read and write `kSent` bytes at `address` with a given key.
  void try_both(unsigned char* address, uint32_t key, ibv_wc_status wanted, const char* what) {
    const guest::Piece target{address, kSent, key};
    unsigned char before[kSent];
    memcpy(before, address, kSent);
    memset(buffer_.bytes(), '!', kSent);
    expect(pair_.write(buffer_.local(kSent), target), wanted, "WRITE", what);
    const bool written = memcmp(address, buffer_.bytes(), kSent) == 0;
    if (written != (wanted == IBV_WC_SUCCESS)) {
      verdict.broken("%s: the peer's bytes are %s", what, written ? "there" : "not there");
    }
    memcpy(address, before, kSent);
    memset(buffer_.bytes(), '?', kSent);
    expect(pair_.read(buffer_.local(kSent), target), wanted, "READ", what);
    const bool seen = memcmp(before, buffer_.bytes(), kSent) == 0;
    if (seen != (wanted == IBV_WC_SUCCESS)) {
      verdict.broken("%s: the peer %s the bytes", what, seen ? "has" : "has not");
    }
  }

  guest::RcPair& pair() { return pair_; }

 private:
  static void expect(ibv_wc_status got, ibv_wc_status wanted, const char* how, const char* what) {
    printf("%s: %s: %s\n", what, how, ibv_wc_status_str(got));
    if (got != wanted) verdict.broken("%s: %s: %s", what, how, ibv_wc_status_str(got));
  }

  guest::RcPair pair_;
  guest::PeerBuffer buffer_{pair_, kSent};
};

rdm_mr key_of(rdm_domain* domain, const void* address) {
  rdm_mr mr{};
  const int status = guest::domains().lookup(domain, address, kSize, &mr);
  if (status != RDM_OK) verdict.broken("no key: %d", status);
  return mr;
}

void check_domain(Peer& peer, int access, unsigned flags, ibv_wc_status exposed_status) {
  auto* heap = static_cast<unsigned char*>(malloc(kSize));
  auto* exposed = static_cast<unsigned char*>(guest::domains().alloc(kSize, 0, RDM_EXPOSED));
  if (heap == nullptr || exposed == nullptr) probe::refused("out of memory");
  memset(heap, 'h', kSize);
  memset(exposed, 'e', kSize);
  rdm_domain* domain = guest::open_domain(peer.pair(), access, flags);
  const rdm_mr heap_key = key_of(domain, heap);
  const rdm_mr exposed_key = key_of(domain, exposed);

  peer.try_both(heap + kSent, heap_key.rkey, IBV_WC_REM_ACCESS_ERR, "the heap by its own key");
  peer.try_both(exposed + kSent, exposed_key.rkey, exposed_status, "an exposed object by its key");
  peer.try_both(exposed + kSize - kSent, exposed_key.rkey, exposed_status,
                "an exposed object's last bytes");
  peer.try_both(heap + kSent, exposed_key.rkey, IBV_WC_REM_ACCESS_ERR, "the heap by exposed key");

  // Half of this access lies beyond the region, in a gap that cannot be inspected.
  auto* last = static_cast<unsigned char*>(exposed_key.base) + exposed_key.length;
  peer.try_both(last - kSent, exposed_key.rkey, exposed_status, "the last bytes of the region");
  guest::PeerBuffer buffer(peer.pair(), kSent);
  const guest::Piece over{last - kSent / 2, kSent, exposed_key.rkey};
  if (peer.pair().write(buffer.local(kSent), over) != IBV_WC_REM_ACCESS_ERR) {
    verdict.broken("a write across the end of the exposed region was not refused");
  }
  if (guest::domains().close(domain) != RDM_OK) verdict.broken("the domain does not close");
  peer.try_both(exposed, exposed_key.rkey, IBV_WC_REM_ACCESS_ERR, "a key of a closed domain");
  guest::domains().free(exposed);
  free(heap);
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("the library is not preloaded");
  Peer peer;
  if (argc > 1 && strcmp(argv[1], "share") == 0) {
    check_domain(peer, guest::kAllRights, RDM_DOMAIN_SHARE_HEAP, IBV_WC_SUCCESS);
  } else {
    check_domain(peer, guest::kAllRights, 0, IBV_WC_SUCCESS);
    check_domain(peer, IBV_ACCESS_LOCAL_WRITE, 0, IBV_WC_REM_ACCESS_ERR);
  }
  return verdict.status();
}
