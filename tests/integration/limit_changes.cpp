// The memlock limit changes while the program runs (setrlimit, prlimit, a capability given up): the
// heap pins as much as is allowed now less its headroom, and its books stay the kernel's.
//
//   limit_changes raised [never]    never: it stays as it is. The control.
//   limit_changes lowered
//   limit_changes dropped           for root: CAP_IPC_LOCK is given up, and a limit applies
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "include/rdmalloc/pool.h"
#include "tests/integration/probe.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kBlock = size_t{128} << 10;
constexpr size_t kLow = size_t{2} << 20;
constexpr size_t kHigh = size_t{8} << 20;

probe::Verdict verdict;
std::vector<char*> blocks;

void set_limit(size_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  limit.rlim_cur = bytes;
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) probe::skip("cannot set RLIMIT_MEMLOCK");
}

// Blocks that stay allocated, all of them written.
void grow(size_t bytes) {
  for (size_t got = 0; got < bytes; got += kBlock) {
    auto* const block = static_cast<char*>(malloc(kBlock));
    if (block == nullptr) probe::refused("out of memory");
    memset(block, static_cast<int>(blocks.size()), kBlock);
    blocks.push_back(block);
  }
}

void check(const char* when, size_t least, size_t most) {
  const size_t pinned = probe::stats().pinned_bytes;
  printf("%s: %zu KiB pinned\n", when, pinned / 1024);
  if (pinned < least || pinned > most) {
    verdict.broken("%s %zu KiB are pinned, not %zu to %zu", when, pinned / 1024, least / 1024,
                   most / 1024);
  }
  if (pinned != probe::locked_bytes()) verdict.broken("%s VmLck differs from the books", when);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i][kBlock - 1] != static_cast<char>(i)) return verdict.broken("a block has changed");
  }
}

void raise(bool never) {
  set_limit(kLow);
  grow(2 * kLow);
  check("below the first limit", kLow / 2, kLow - kLow / 10);
  if (!never) set_limit(kHigh);
  // A pool that must be pinned fits into the limit that there is now.
  probe::PoolOptions options;
  options.buffer_bytes = kBlock;
  options.reserve = kLow / kBlock;
  options.flags = RDM_EXPOSED;
  rdm_pool* pool = nullptr;
  if (rdm_pool_create(nullptr, &options, &pool) != RDM_OK)
    verdict.broken("a pool: %s", options.why);
  grow(kLow);
  check("below the raised limit", kLow + kLow, kHigh);
}

void lower() {
  set_limit(kLow);
  grow(2 * kLow);
  check("below the lowered limit", kLow / 2, kLow - kLow / 10);
  set_limit(kBlock);
  const size_t before = probe::stats().pinned_bytes;
  grow(kLow);
  check("where all of the limit is used", before, before);
}

void drop() {
  set_limit(kHigh);
  grow(kBlock);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capset, &header, data) != 0) probe::skip("cannot give up capabilities");
  // What may be registered is what the limit allows less a tenth, not less a tenth of no limit.
  rdm_domain* domain = nullptr;
  probe::DomainOptions options(RDM_DOMAIN_PARTIAL);
  const int status = rdm_domain_open_io_uring(-1, &options, &domain);
  if (status == RDM_UNSUPPORTED) probe::skip(options.why);
  if (status != RDM_OK) return verdict.broken("a domain: status %d: %s", status, options.why);
  if (probe::stats().registered_pinned_bytes == 0) verdict.broken("nothing is registered");
  if (rdm_domain_close(domain) != RDM_OK) verdict.broken("closing the domain");
  const size_t before = probe::stats().pinned_bytes;
  grow(2 * kHigh);
  check("without CAP_IPC_LOCK", before, before > kHigh ? before : kHigh);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "raised") == 0) raise(argc > 2);
  if (strcmp(what, "lowered") == 0) lower();
  if (strcmp(what, "dropped") == 0) drop();
  return verdict.status();
}
