// In the steady state nothing is registered: once a program that mallocs, fills, sends and frees a
// buffer per message has used all its sizes, it continues to work with io_uring_register forbidden.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kSmallest = size_t{64} << 10;
constexpr size_t kLargest = size_t{64} << 20;
constexpr int kWarmUp = 3;
constexpr int kRounds = 20;

probe::Verdict verdict;
const char* when = "in warm-up";

void send(probe::KeyedDevice& keyed, size_t size, uint64_t seed) {
  auto* buffer = static_cast<unsigned char*>(malloc(size));
  const probe::Pattern pattern(seed);
  pattern.fill(buffer, probe::kPage);
  pattern.fill(buffer + size - probe::kPage, probe::kPage);
  const int key = keyed.key_of(buffer, size);
  const unsigned char* peer = keyed.device().peer();
  if (key < 0) {
    verdict.broken("%s a buffer of %zu KiB has no key", when, size >> 10);
  } else if (const int error = keyed.device().send(static_cast<uint32_t>(key), buffer, size)) {
    verdict.broken("%zu KiB were not sent: %s", size >> 10, strerror(error));
  } else if (pattern.mismatch(peer, probe::kPage) != probe::kPage ||
             pattern.mismatch(peer + size - probe::kPage, probe::kPage) != probe::kPage) {
    verdict.broken("the peer got other bytes");
  }
  free(buffer);
  keyed.forget();
}

void send_all(probe::KeyedDevice& keyed, int rounds, uint64_t seed) {
  for (int i = 0; i < rounds; ++i) {
    for (size_t size = kSmallest; size <= kLargest; size *= 2) send(keyed, size, ++seed);
  }
}

void forbid_registering() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    probe::skip("no seccomp filters here");
  }
}

}  // namespace

int main() {
  // Whoever moves to another NUMA node gets other memory there, which must be registered once more.
  probe::stay_on_processor();
  static probe::KeyedDevice keyed(kLargest, verdict);
  if (verdict.count() != 0) return verdict.status();
  send_all(keyed, kWarmUp, 0);
  if (verdict.count() != 0) return verdict.status();
  when = "after warm-up";
  const uint64_t warm = probe::stats().registrations;
  forbid_registering();
  send_all(keyed, kRounds, 1000);
  const uint64_t after = probe::stats().registrations;
  if (after != warm) verdict.broken("%lu registrations after warm-up", after - warm);
  printf("%lu registrations, all of them in warm-up\n", warm);
  fflush(stdout);
  _exit(verdict.status());  // closing the domain would be forbidden, too
}
