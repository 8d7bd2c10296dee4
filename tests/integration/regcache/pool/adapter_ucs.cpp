// UCX's own pools (libucs) on our chunks: every element lies in a registered region, chunks come
// and go without registrations, and libucs' books balance at the end.
//
//   adapter_ucs ours|exposed|mmap      mmap: UCX's own chunks, a control
#include <ucs/datastruct/mpool.h>

#include "include/rdmalloc/adapters.h"
#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kElement = 2000;
constexpr size_t kElements = 5000;
constexpr unsigned kPerChunk = 128;

probe::Verdict verdict;

// Assigned without a cast: the signatures match UCX's.
ucs_mpool_ops_t ours = {rdm_ucs_chunk_alloc, rdm_ucs_chunk_release, nullptr, nullptr, nullptr};
ucs_mpool_ops_t exposed = {rdm_ucs_chunk_alloc_exposed, rdm_ucs_chunk_release, nullptr, nullptr,
                           nullptr};
ucs_mpool_ops_t theirs = {ucs_mpool_chunk_mmap, ucs_mpool_chunk_munmap, nullptr, nullptr, nullptr};

void fill_and_empty(rdm_domain* domain, ucs_mpool_ops_t* ops) {
  ucs_mpool_t pool;
  const ucs_status_t status = ucs_mpool_init(&pool, 0, kElement, 0, 64, kPerChunk,
                                             static_cast<unsigned>(kElements), ops, "test");
  if (status != UCS_OK) return verdict.broken("ucs_mpool_init: %d", status);
  static void* elements[kElements];
  for (void*& element : elements) {
    element = ucs_mpool_get(&pool);
    if (element == nullptr) return verdict.broken("no element");
    rdm_mr mr{};
    const int found = rdm_lookup(domain, element, kElement, &mr);
    if (found != RDM_OK) verdict.broken("an element's lookup says: %s", rdm_strerror(found));
    memset(element, 0x11, kElement);
  }
  if (ucs_mpool_get(&pool) != nullptr) verdict.broken("more elements than may be");
  for (void* element : elements) ucs_mpool_put(element);
  ucs_mpool_cleanup(&pool, 1);
}

void refuse_the_impossible() {
  size_t size = SIZE_MAX - 5;
  void* chunk = nullptr;
  if (rdm_ucs_chunk_alloc(nullptr, &size, &chunk) != UCS_ERR_NO_MEMORY || chunk != nullptr ||
      size != SIZE_MAX - 5) {
    verdict.broken("a chunk of all memory");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  // Chunks that were freed on another processor stay in its cache while the heap has little to
  // spare.
  probe::stay_on_processor();
  rdm_domain* domain = probe::open_domain(-1, verdict);
  if (domain == nullptr) return verdict.status();
  const char* way = argc > 1 ? argv[1] : "ours";
  ucs_mpool_ops_t* ops = strcmp(way, "exposed") == 0 ? &exposed : &ours;
  if (strcmp(way, "mmap") == 0) ops = &theirs;
  fill_and_empty(domain, ops);
  const rdm_stats before = probe::stats();
  for (int i = 0; i < 20 && verdict.count() == 0; ++i) fill_and_empty(domain, ops);
  const rdm_stats after = probe::stats();
  if (after.held_bytes != before.held_bytes) verdict.broken("the heap grew");
  if (after.registrations != before.registrations) verdict.broken("something was registered");
  refuse_the_impossible();
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the domain");
  return verdict.status();
}
