// Rings that callers supply: created for a single issuer, with the caller's own buffer table, or
// none at all.
#include <thread>

#include "tests/integration/regcache/uring_device.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSize = 16 * kMiB;

probe::Verdict verdict;

int look_up(rdm_domain* domain, const void* address, size_t length, uint32_t* key) {
  rdm_mr found{};
  const int status = probe::domains().lookup(domain, address, length, &found);
  *key = found.lkey;
  return status;
}

// Memory that another thread acquires is registered only when the issuer looks it up.
void check_single_issuer() {
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_SINGLE_ISSUER;
  io_uring ring{};
  if (io_uring_queue_init_params(8, &ring, &parameters) != 0) {
    printf("a ring for a single issuer: left out, Linux 6.0 has them\n");
    return;
  }
  rdm_domain* domain = probe::open_domain(ring.ring_fd, verdict);
  if (domain == nullptr) return;
  void* memory = nullptr;
  uint32_t key = 0;
  std::thread([&] {
    memory = probe::grow(kSize);
    const int status = look_up(domain, memory, kSize, &key);
    if (status != RDM_NOT_REGISTERED) verdict.broken("another thread is told %d", status);
  }).join();
  const int status = look_up(domain, memory, kSize, &key);
  if (status != RDM_OK) verdict.broken("the issuer is told %d", status);
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("the issuer cannot close");
  free(memory);
  io_uring_queue_exit(&ring);
}

// Slots 2 to 4 of six are the domain's. The caller's own buffer, in slot 0, stays as it is.
void check_own_table() {
  probe::Device device(kMiB);
  alignas(65536) static char own[65536];
  if (io_uring_register_buffers_sparse(device.ring(), 6) != 0) probe::skip("no sparse tables");
  iovec buffer{own, sizeof own};
  __u64 tag = 0;
  if (io_uring_register_buffers_update_tag(device.ring(), 0, &buffer, &tag, 1) != 1) {
    probe::skip("cannot register a buffer");
  }
  probe::DomainOptions options;
  rdm_domain* domain = nullptr;
  if (probe::domains().open(device.ring_fd(), &options, &domain) != RDM_INVALID ||
      strstr(options.why, "first_slot") == nullptr) {
    verdict.broken("with a table of the caller's the domain says: %s", options.why);
  }
  options.first_slot = 2;
  options.slots = 3;
  if (probe::domains().open(device.ring_fd(), &options, &domain) != RDM_OK) {
    return verdict.broken("opening with slots: %s", options.why);
  }
  for (int i = 0; i < 8; ++i) {
    void* memory = probe::grow(kSize);
    uint32_t key = 0;
    const int status = look_up(domain, memory, kMiB, &key);
    if (status != RDM_OK && status != RDM_NOT_REGISTERED)
      verdict.broken("a lookup says %d", status);
    if (status == RDM_OK && (key < 2 || key > 4)) verdict.broken("slot %u is the caller's", key);
  }
  const probe::Pattern pattern(1);
  pattern.fill(own, sizeof own);
  if (device.send(0, own, sizeof own) != 0 ||
      pattern.mismatch(device.peer(), sizeof own) != sizeof own) {
    verdict.broken("the caller's own buffer is not sent");
  }
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing with slots failed");
  if (device.send(0, own, sizeof own) != 0) verdict.broken("closing took the caller's buffer");
}

void check_no_ring() {
  int pipes[2];
  if (pipe(pipes) != 0) probe::skip("no pipe");
  for (const int fd : {pipes[0], 9999, -7}) {
    probe::DomainOptions options;
    rdm_domain* domain = nullptr;
    if (probe::domains().open(fd, &options, &domain) != RDM_INVALID || options.why[0] == '\0') {
      verdict.broken("descriptor %d is taken for a ring, or without a word", fd);
    }
  }
  if (probe::domains().open(9999, nullptr, nullptr) != RDM_INVALID) {
    verdict.broken("nowhere to put the domain is not refused");
  }
}

}  // namespace

int main() {
  if (!probe::library().loaded()) probe::skip("needs the library");
  check_single_issuer();
  check_own_table();
  check_no_ring();
  if (!probe::comes_to(0, probe::pinned_by_kernel)) verdict.broken("pages stay pinned");
  return verdict.status();
}
