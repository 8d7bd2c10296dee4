// Two endpoints of the real libfabric, over a provider that every machine has, and a domain of
// ours: libfabric accepts what its lookups return.
//
//   ofi_real PROVIDER ADDRESS|- [keys] [pins] [heap]
//
// keys: callers choose the domain's keys (no FI_MR_PROV_KEY). pins: the provider pins registered
// memory. heap: without exposed memory, which an ordinary user may be unable to get: his first
// regions are as large as his memlock limit.

#include "tests/integration/regcache/preload/ofi/ofi_pair.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kBytes = size_t{64} << 10;
constexpr uint64_t kEverything =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr int kRefusalSeconds = 2;  // some providers never report a refused write

probe::Verdict verdict;

struct {
  bool pins = false;
  bool heap_only = false;
} choice;

// The library's functions; null in a control.
struct Functions {
  decltype(rdm_domain_open_ofi)* open =
      probe::symbol<decltype(rdm_domain_open_ofi)>("rdm_domain_open_ofi");
  decltype(rdm_domain_close)* close = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  decltype(rdm_lookup)* lookup = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");
  decltype(rdm_alloc)* alloc = probe::symbol<decltype(rdm_alloc)>("rdm_alloc");
  decltype(rdm_free)* free = probe::symbol<decltype(rdm_free)>("rdm_free");
};

const Functions& rdm() {
  static const Functions found;
  return found;
}

probe::OfiMemory find(rdm_domain* domain, void* address) {
  rdm_mr mr{};
  const int status = rdm().lookup(domain, address, kBytes, &mr);
  if (status != RDM_OK) verdict.broken("a buffer is not registered: status %d", status);
  return {address, static_cast<fid_mr*>(mr.handle), mr.base};
}

// Allocated before libfabric mallocs what it needs: an ordinary user may pin little.
struct Buffers {
  Buffers() {
    if (from == nullptr || heap == nullptr) probe::refused("out of memory");
    memset(from, 'a', kBytes);
    memset(heap, 'b', kBytes);
    if (choice.heap_only) return;
    if (exposed == nullptr) probe::refused("no exposed memory");
    memset(exposed, 'c', kBytes);
  }
  ~Buffers() {
    rdm().free(exposed);
    free(heap);
    free(from);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  unsigned char* const from = static_cast<unsigned char*>(malloc(kBytes));
  unsigned char* const heap = static_cast<unsigned char*>(malloc(kBytes));
  unsigned char* const exposed =
      choice.heap_only ? nullptr : static_cast<unsigned char*>(rdm().alloc(kBytes, 0, RDM_EXPOSED));
};

void check_exposed(probe::OfiPair& pair, rdm_domain* domain, const Buffers& buffers,
                   const probe::OfiMemory& from) {
  const probe::OfiMemory exposed = find(domain, buffers.exposed);
  if (verdict.status() != probe::kHolds) return;
  if (!pair.write(from, exposed, kBytes) || memcmp(buffers.from, buffers.exposed, kBytes) != 0) {
    verdict.broken("a peer's write by the looked-up key did not arrive");
  }
}

void check_writes(probe::OfiPair& pair, rdm_domain* domain, const Buffers& buffers) {
  const probe::OfiMemory from = find(domain, buffers.from);
  const probe::OfiMemory heap = find(domain, buffers.heap);
  if (verdict.status() != probe::kHolds) return;
  if (!choice.heap_only) check_exposed(pair, domain, buffers, from);
  // A provider that pins also caches, and registers with all rights whatever is requested.
  if (choice.pins) return;
  if (pair.write(from, heap, kBytes, kRefusalSeconds) || buffers.heap[0] != 'b' ||
      buffers.heap[kBytes - 1] != 'b') {
    verdict.broken("a peer wrote to the heap, which is not exposed");
  }
}

void check_child(rdm_domain* domain, const Buffers& buffers) {
  const probe::ChildEnd end = probe::run_child([&] {
    rdm_mr mr{};
    return rdm().lookup(domain, buffers.heap, kBytes, &mr) == RDM_NOT_REGISTERED;
  });
  verdict.expect_good_end("a child that asked for its parent's registration", end);
}

void check(probe::OfiPair& pair, const Buffers& buffers) {
  probe::DomainOptions options;
  rdm_domain* domain = nullptr;
  const int status = rdm().open(pair.domain(), kEverything, &options, &domain);
  if (status != RDM_OK) return verdict.broken("no domain: status %d: %s", status, options.why);
  const uint64_t pinned = probe::stats().registered_pinned_bytes;
  if ((pinned != 0) != choice.pins) verdict.broken("%lu bytes are said to be pinned", pinned);
  check_writes(pair, domain, buffers);
  check_child(domain, buffers);
  if (rdm().close(domain) != RDM_OK) verdict.broken("the domain does not close");
}

}  // namespace

int main(int argc, char** argv) {
  if (rdm().open == nullptr) {
    verdict.broken("nobody registers the heap");
    return verdict.status();
  }
  bool with_own_keys = false;
  for (int i = 3; i < argc; ++i) {
    with_own_keys = with_own_keys || strcmp(argv[i], "keys") == 0;
    choice.pins = choice.pins || strcmp(argv[i], "pins") == 0;
    choice.heap_only = choice.heap_only || strcmp(argv[i], "heap") == 0;
  }
  const Buffers buffers;
  {
    const char* node = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : nullptr;
    probe::OfiPair pair(argc > 1 ? argv[1] : "sockets", node, with_own_keys);
    check(pair, buffers);
  }
  return verdict.status();
}
