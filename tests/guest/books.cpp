// The library's books match the kernel's to the page: VmLck equals what the library pinned, VmPin
// what registration pinned, with no, one and two open domains, while the heap grows and after the
// domains are closed.
//
//   books            must hold; every region is registered in every domain
//   books looked-up  must hold; large blocks are registered when they are looked up
//   books hidden     the same plus a registration that the library does not know: must not hold
#include "tests/guest/keys.h"

namespace {

constexpr size_t kSize = size_t{3} << 20;
probe::Verdict verdict;
bool by_lookup = false;

uint64_t charged_bytes() { return probe::kib_field("/proc/self/status", "VmPin:"); }

bool agree(const rdm_stats& books, uint64_t domains) {
  return books.pinned_bytes == probe::locked_bytes() &&
         books.registered_pinned_bytes == charged_bytes() &&
         (by_lookup || books.registered_pinned_bytes == domains * books.pinned_bytes);
}

// A library thread may still be registering; give it a moment.
void check(const char* when, uint64_t domains) {
  rdm_stats books = probe::stats();
  for (int tries = 0; tries < 10 && !agree(books, domains); ++tries) {
    usleep(50000);
    books = probe::stats();
  }
  printf("%s: pinned %lu, VmLck %lu, registered %lu, VmPin %lu\n", when, books.pinned_bytes,
         probe::locked_bytes(), books.registered_pinned_bytes, charged_bytes());
  if (books.pinned_bytes != probe::locked_bytes()) {
    verdict.broken("%s: the books say %lu bytes are pinned, the kernel %lu", when,
                   books.pinned_bytes, probe::locked_bytes());
  }
  if (books.registered_pinned_bytes != charged_bytes()) {
    verdict.broken("%s: the books say %lu bytes are pinned by registering, the kernel %lu", when,
                   books.registered_pinned_bytes, charged_bytes());
  }
  const bool is_whole = books.registered_pinned_bytes == domains * books.pinned_bytes;
  if ((!is_whole && !by_lookup) || books.domains != domains) {
    verdict.broken("%s: %lu domains, %lu bytes pinned, %lu of them by registering", when,
                   books.domains, books.pinned_bytes, books.registered_pinned_bytes);
  }
}

void grow(const char* when, uint64_t domains, rdm_domain* open = nullptr) {
  void* bytes = malloc(kSize);
  void* exposed = guest::domains().alloc(kSize, 0, RDM_EXPOSED);
  if (bytes == nullptr || exposed == nullptr) probe::refused("out of memory");
  rdm_mr mr{};
  if (by_lookup && open != nullptr && guest::domains().lookup(open, bytes, kSize, &mr) != RDM_OK) {
    verdict.broken("%s: what was looked up has no key", when);
  }
  check(when, domains);
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("the library is not preloaded");
  const bool hidden = argc > 1 && strcmp(argv[1], "hidden") == 0;
  by_lookup = argc > 1 && strcmp(argv[1], "looked-up") == 0;
  guest::RcPair first;
  guest::RcPair second;
  check("no domain", 0);
  grow("no domain, grown", 0);
  rdm_domain* one = guest::open_domain(first, guest::kAllRights, 0);
  check("one domain", 1);
  grow("one domain, grown", 1, one);
  const void* unknown = hidden ? new guest::PeerBuffer(first, kSize) : nullptr;
  rdm_domain* two = guest::open_domain(second, IBV_ACCESS_LOCAL_WRITE, RDM_DOMAIN_SHARE_HEAP);
  check("two domains", 2);
  grow("two domains, grown", 2, two);
  if (guest::domains().close(one) != RDM_OK) verdict.broken("the first domain does not close");
  check("the second domain", 1);
  grow("the second domain, grown", 1, two);
  if (guest::domains().close(two) != RDM_OK) verdict.broken("the second domain does not close");
  check("both closed", 0);
  if (unknown == nullptr && charged_bytes() != 0) verdict.broken("both closed: memory is charged");
  return verdict.status();
}
