// The limit on locked memory is reached while a domain is open: malloc still succeeds, lookups
// report memory without a key, and memory with a key is sent correctly. Run as an ordinary user
// with a small RLIMIT_MEMLOCK.
//
//   limits MIB    how much is allocated
#include <vector>

#include "tests/guest/keys.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kSize = size_t{64} << 10;
probe::Verdict verdict;

uint64_t charged_bytes() { return probe::kib_field("/proc/self/status", "VmPin:"); }

// Whether it has a key.
bool send(guest::RcPair& pair, const rdm_domain* domain, const guest::PeerBuffer& peer, void* bytes,
          int fill) {
  memset(bytes, fill, kSize);
  rdm_mr mr{};
  const int status = guest::domains().lookup(domain, bytes, kSize, &mr);
  if (status == RDM_NOT_REGISTERED) return false;
  if (status != RDM_OK) return verdict.broken("a lookup says %d", status), false;
  const ibv_wc_status sent = pair.write({bytes, kSize, mr.lkey}, peer.remote(kSize));
  if (sent != IBV_WC_SUCCESS) verdict.broken("%s", ibv_wc_status_str(sent));
  if (memcmp(bytes, peer.bytes(), kSize) != 0) verdict.broken("the peer has other bytes");
  return true;
}

// Each domain's registrations are charged again: a second domain does not fit, and leaves nothing
// behind.
void open_another(uint64_t charged) {
  guest::RcPair pair;
  probe::DomainOptions options;
  rdm_domain* domain = nullptr;
  const int status =
      guest::domains().open(pair.domain(), IBV_ACCESS_LOCAL_WRITE, &options, &domain);
  printf("a second domain: status %d: %s\n", status, options.why);
  if (status != RDM_OUT_OF_BUDGET) verdict.broken("a second domain: status %d", status);
  if (strstr(options.why, "memlock") == nullptr && strstr(options.why, "MEMLOCK") == nullptr) {
    verdict.broken("the reason does not name the memlock limit");
  }
  if (status == RDM_OK) (void)guest::domains().close(domain);
  if (charged_bytes() != charged) verdict.broken("the failure leaves memory charged");
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("the library is not preloaded");
  const size_t wanted = probe::argument(argc, argv, 1, 16) << 20;
  guest::RcPair pair;
  guest::PeerBuffer peer(pair, kSize);
  rdm_domain* domain = guest::open_domain(pair, IBV_ACCESS_LOCAL_WRITE, 0);
  size_t with_key = 0;
  size_t without = 0;
  std::vector<void*> all;
  for (size_t held = 0; held < wanted; held += kSize) {
    all.push_back(malloc(kSize));
    if (all.back() == nullptr) return verdict.broken("malloc failed"), verdict.status();
    ++(send(pair, domain, peer, all.back(), static_cast<int>(held / kSize)) ? with_key : without);
  }
  const rdm_stats books = probe::stats();
  const uint64_t locked = probe::locked_bytes();
  const uint64_t charged = charged_bytes();
  printf("%zu objects with a key, %zu without; VmLck %lu, VmPin %lu\n", with_key, without, locked,
         charged);
  if (with_key == 0) verdict.broken("nothing has a key");
  if (without == 0) verdict.broken("everything has a key: the limit was not reached");
  if (books.pinned_bytes != locked || books.registered_pinned_bytes + kSize != charged) {
    verdict.broken("the books say %lu pinned, %lu by registering", books.pinned_bytes,
                   books.registered_pinned_bytes);
  }
  open_another(charged);
  for (void* bytes : all) free(bytes);
  if (guest::domains().close(domain) != RDM_OK) verdict.broken("the domain does not close");
  return verdict.status();
}
