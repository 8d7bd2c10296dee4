// A reserve that exceeds the limits is refused at the start. The message names the amount needed,
// the limit, this process's books, and another process of the user that holds memory; nothing of
// the reserve remains. Then a reserve that fits succeeds.
#include <sys/mman.h>

#include "include/rdmalloc/pool.h"
#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kMemlock = size_t{8} << 20;  // the limit, in bytes
constexpr size_t kBytes = 32768;
constexpr size_t kTooMany = 1024;
constexpr size_t kTooManyBeside = 200;
constexpr size_t kOthers = size_t{3} << 20;
constexpr size_t kHeldByNeighbour = size_t{2} << 20;

probe::Verdict verdict;
char why[2048];

int create(rdm_domain* domain, size_t reserve, unsigned flags, rdm_pool** pool) {
  rdm_pool_options options{};
  options.size = sizeof options;
  options.buffer_bytes = kBytes;
  options.reserve = reserve;
  options.flags = flags;
  options.error = why;
  options.error_size = sizeof why;
  why[0] = '\0';
  return rdm_pool_create(domain, &options, pool);
}

void expect(const char* part) {
  if (strstr(why, part) == nullptr) verdict.broken("the reason lacks \"%s\": %s", part, why);
}

// Another process of the same user with locked memory.
pid_t start_neighbour() {
  int told[2];
  if (pipe(told) != 0) probe::skip("no pipe");
  const pid_t neighbour = fork();
  if (neighbour == 0) {
    void* memory =
        mmap(nullptr, kHeldByNeighbour, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const char byte = mlock(memory, kHeldByNeighbour) == 0 ? 'y' : 'n';
    (void)!write(told[1], &byte, 1);
    for (;;) pause();
  }
  char byte = 0;
  if (read(told[0], &byte, 1) != 1 || byte != 'y') verdict.broken("the neighbour locked nothing");
  return neighbour;
}

void refuse(rdm_domain* domain, pid_t neighbour, unsigned flags, size_t count, const char* cause) {
  rdm_pool* pool = nullptr;
  const uint64_t pinned = probe::pinned_by_kernel();
  const int status = create(domain, count, flags, &pool);
  if (status == RDM_OK) return verdict.broken("%zu buffers were had, whatever the limit", count);
  printf("%s\n", why);
  if (status != RDM_OUT_OF_BUDGET && status != RDM_NOT_REGISTERED) {
    verdict.broken("status %d", status);
  }
  if (pool != nullptr) verdict.broken("a pool was returned, too");
  char told[128];
  snprintf(told, sizeof told,
           "process %d (program) of the same user has pinned 0 B and locked 2 MiB",
           static_cast<int>(neighbour));
  char needed[128];
  snprintf(needed, sizeof needed, "needs %zu bytes registered for %zu buffers, and got ",
           count * kBytes, count);
  for (const char* part :
       {static_cast<const char*>(needed), cause, "the memlock limit is 8 MiB",
        "by the memlock limit", "this process holds ", " beyond the budget",
        "registered in 1 domain;", static_cast<const char*>(told), "ulimit -l"}) {
    expect(part);
  }
  if (strstr(why, rdm_last_error()) != why) verdict.broken("rdm_last_error() says another thing");
  if (!probe::comes_to(pinned, probe::pinned_by_kernel)) {
    // Regions stay registered, but within the limit.
    if (probe::pinned_by_kernel() > kMemlock) verdict.broken("more is pinned than may be");
  }
}

}  // namespace

int main() {
  if (!probe::library().loaded()) probe::skip("needs the library");
  rdm_domain* domain = probe::open_domain(-1, verdict);
  if (domain == nullptr) return verdict.status();
  const pid_t neighbour = start_neighbour();
  // Whole pages of nine tenths of the limit.
  const size_t budget = kMemlock * 9 / 10 / probe::kPage * probe::kPage;
  char pinnable[64];
  snprintf(pinnable, sizeof pinnable, "no more than %zu KiB may be pinned", budget >> 10);
  refuse(domain, neighbour, 0, kTooMany, pinnable);
  refuse(domain, neighbour, RDM_EXPOSED, kTooMany, pinnable);
  // What the budget would allow, if nothing else were pinned.
  void* const others = probe::grow(kOthers);
  refuse(domain, neighbour, 0, kTooManyBeside, "beyond the budget for pinned memory, and so in no");
  refuse(domain, neighbour, RDM_EXPOSED, kTooManyBeside, "no room for more exposed memory");
  free(others);
  probe::kill_child(neighbour);
  if (verdict.count() != 0) return verdict.status();
  rdm_pool* pool = nullptr;
  if (create(domain, 16, 0, &pool) != RDM_OK) {
    verdict.broken("half a mebibyte is refused: %s", why);
    return verdict.status();
  }
  rdm_buffer buffer{};
  if (rdm_pool_get(pool, &buffer) != RDM_OK) verdict.broken("no buffer of the reserve");
  if (rdm_pool_close(pool) != RDM_BUSY) verdict.broken("a pool in use was closed");
  if (rdm_pool_put(pool, buffer.address) != RDM_OK) verdict.broken("no put");
  if (rdm_pool_close(pool) != RDM_OK) verdict.broken("not closed: %s", rdm_last_error());
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the domain");
  return verdict.status();
}
