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

struct Books {
  rdm_stats ours;
  uint64_t locked_bytes, charged_bytes;  // the kernel's

  bool agree(uint64_t domains) const {
    return ours.pinned_bytes == locked_bytes && ours.registered_pinned_bytes == charged_bytes &&
           (by_lookup || ours.registered_pinned_bytes == domains * ours.pinned_bytes);
  }
};

// Ours and the kernel's at one moment: ours are the same before and after the kernel's are read.
Books read_books() {
  for (;;) {
    const rdm_stats before = probe::stats();
    const Books books{before, probe::locked_bytes(), charged_bytes()};
    const rdm_stats after = probe::stats();
    if (before.pinned_bytes == after.pinned_bytes &&
        before.registered_pinned_bytes == after.registered_pinned_bytes) {
      return books;
    }
  }
}

// A library thread may still be registering; give it a moment.
void check(const char* when, uint64_t domains) {
  Books books = read_books();
  for (int tries = 0; tries < 10 && !books.agree(domains); ++tries) {
    usleep(50000);
    books = read_books();
  }
  const auto& [ours, locked, charged] = books;
  printf("%s: pinned %lu, VmLck %lu, registered %lu, VmPin %lu\n", when, ours.pinned_bytes, locked,
         ours.registered_pinned_bytes, charged);
  if (ours.pinned_bytes != locked) {
    verdict.broken("%s: the books say %lu bytes are pinned, the kernel %lu", when,
                   ours.pinned_bytes, locked);
  }
  if (ours.registered_pinned_bytes != charged) {
    verdict.broken("%s: the books say %lu bytes are pinned by registering, the kernel %lu", when,
                   ours.registered_pinned_bytes, charged);
  }
  const bool is_whole = ours.registered_pinned_bytes == domains * ours.pinned_bytes;
  if ((!is_whole && !by_lookup) || ours.domains != domains) {
    verdict.broken("%s: %lu domains, %lu bytes pinned, %lu of them by registering", when,
                   ours.domains, ours.pinned_bytes, ours.registered_pinned_bytes);
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
