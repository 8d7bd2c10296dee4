// A program that closes all unknown descriptors, as daemons do, does not break a domain on our own
// ring: that has no descriptor in the program's table.
//
//   domain_descriptors own|caller     the caller's ring is the control: it is closed
#include <dirent.h>

#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

int open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) probe::skip("no /proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const bool own = argc < 2 || strcmp(argv[1], "own") == 0;
  static probe::Device device(probe::kPage);
  probe::grow(kMiB);
  const int before = open_descriptors();
  rdm_domain* domain = probe::open_domain(own ? -1 : device.ring_fd(), verdict);
  if (domain == nullptr) return verdict.status();
  if (open_descriptors() != before) verdict.broken("the domain shows up among the descriptors");

  const uint64_t registered = probe::stats().registered_bytes;
  closefrom(STDERR_FILENO + 1);
  void* later = probe::grow(64 * kMiB);
  rdm_mr found{};
  if (probe::domains().lookup(domain, later, 64 * kMiB, &found) != RDM_OK) {
    verdict.broken("memory acquired after closefrom() has no key");
    return verdict.status();
  }
  const rdm_stats books = probe::stats();
  if (books.registered_bytes < registered + 64 * kMiB) {
    verdict.broken("memory acquired after closefrom() is not registered");
  }
  // io_uring charges a huge page once per ring, even if it is registered at two addresses because
  // it was moved.
  const uint64_t once = books.huge_bytes != 0 ? books.retired_bytes : 0;
  if (!probe::comes_to(books.registered_pinned_bytes, probe::pinned_by_kernel) &&
      books.registered_pinned_bytes - probe::pinned_by_kernel() > once) {
    verdict.broken("the books say %lu bytes pinned, the kernel %lu", books.registered_pinned_bytes,
                   probe::pinned_by_kernel());
  }
  if (open_descriptors() > 3 + 3) verdict.broken("a descriptor has come back");
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the domain failed");
  if (!probe::comes_to(0, probe::pinned_by_kernel)) verdict.broken("pages stay pinned");
  return verdict.status();
}
