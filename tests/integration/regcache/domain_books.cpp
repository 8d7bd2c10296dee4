// The books match the kernel's to the page: what is locked (VmLck) and what registrations pin
// (VmPin), with no, one and two domains, while the heap grows, and after they are closed.
//
//   domain_books MIB     of the largest request; more than 1 GiB takes several buffers
#include <fcntl.h>
#include <unistd.h>

#include <iterator>

#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;
uint64_t before = 0;  // pinned by the program's own rings

uint64_t pinned() { return probe::pinned_by_kernel() - before; }

// Bytes of huge pages that the heap also uses at other addresses: khugepaged combines present pages
// with absent ones into a huge page, and its free part may be moved away and copied. 0 if page
// frames cannot be read.
uint64_t huge_bytes_beside() {
  constexpr uint64_t kPagesOfHugePage = 512;
  constexpr uint64_t kTransparentHuge = uint64_t{1} << 22;  // linux/kernel-page-flags.h: KPF_THP
  static uint16_t pages_had[size_t{1} << 20];               // by huge page frame, up to 2 TiB
  memset(pages_had, 0, sizeof pages_had);
  const int flags_fd = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
  if (flags_fd < 0) return 0;
  uint64_t beside = 0;
  rdm_region region{};
  for (size_t i = 0; probe::library().region_get(i, &region) == RDM_OK; ++i) {
    for (size_t offset = 0; offset < region.length; offset += probe::kPage) {
      const uint64_t frame = probe::page_frame(static_cast<char*>(region.base) + offset);
      uint64_t flags = 0;
      const auto at = static_cast<off_t>(frame * sizeof flags);
      if (frame == 0 || frame / kPagesOfHugePage >= std::size(pages_had) ||
          pread(flags_fd, &flags, sizeof flags, at) != sizeof flags ||
          (flags & kTransparentHuge) == 0) {
        continue;
      }
      uint16_t& had = pages_had[frame / kPagesOfHugePage];
      if (had++ == 0) beside += kPagesOfHugePage;
      --beside;
    }
  }
  close(flags_fd);
  return beside * probe::kPage;
}

// io_uring charges a huge page as a whole and once per ring, even if only part of it is registered,
// or if it is registered at two addresses because it was moved.
bool pins_nearly_as_booked(const rdm_stats& books, uint64_t open) {
  const uint64_t by_kernel = pinned();
  return by_kernel <= books.registered_pinned_bytes + open * huge_bytes_beside() &&
         by_kernel + open * books.retired_bytes >= books.registered_pinned_bytes;
}

bool pins_as_booked(const rdm_stats& books, uint64_t open) {
  if (books.huge_bytes == 0) return probe::comes_to(books.registered_pinned_bytes, pinned);
  // Nearly is not enough once: the kernel may be about to unpin more.
  constexpr int kTries = 20;
  constexpr int kTimesInARow = 3;
  int nearly = 0;
  for (int i = 0; i < kTries && nearly < kTimesInARow; ++i, usleep(100000)) {
    if (pinned() == books.registered_pinned_bytes) return true;
    nearly = pins_nearly_as_booked(books, open) ? nearly + 1 : 0;
  }
  return nearly == kTimesInARow;
}

void check(const char* when, uint64_t open) {
  const rdm_stats books = probe::stats();
  if (books.domains != open) verdict.broken("%s: %lu domains", when, books.domains);
  if (books.pinned_bytes != probe::locked_bytes()) {
    verdict.broken("%s: %lu bytes locked by the books, %lu by the kernel", when, books.pinned_bytes,
                   probe::locked_bytes());
  }
  if (!pins_as_booked(books, open)) {
    verdict.broken("%s: registrations pin %lu bytes by the books, %lu by the kernel", when,
                   books.registered_pinned_bytes, pinned());
  }
  if (books.overflow_bytes == 0 && !probe::registers_all(books, open)) {
    verdict.broken("%s: %lu bytes registered in %lu domains of %lu bytes", when,
                   books.registered_bytes, open, books.pinned_bytes);
  }
}

void check_growing(const char* when, uint64_t open) {
  check(when, open);
  for (const size_t size : {kMiB / 4, kMiB, 3 * kMiB, 40 * kMiB}) {
    probe::grow(size);
    check(when, open);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const size_t largest = probe::argument(argc, argv, 1, 64) * kMiB;
  probe::Device device(probe::kPage);
  before = probe::pinned_by_kernel();
  check_growing("without a domain", 0);
  rdm_domain* on_ring = probe::open_domain(device.ring_fd(), verdict);
  check_growing("with one domain", 1);
  rdm_domain* pinning = probe::open_domain(-1, verdict);
  check_growing("with two domains", 2);

  auto* large = static_cast<char*>(probe::grow(largest));
  check("with a large buffer", 2);
  for (const size_t offset : {size_t{0}, largest / 2, largest - 1}) {
    rdm_mr found{};
    if (probe::domains().lookup(on_ring, large + offset, 1, &found) != RDM_OK ||
        probe::domains().lookup(pinning, large + offset, 1, &found) != RDM_OK) {
      verdict.broken("byte %zu of the large buffer has no key", offset);
    }
  }
  if (probe::domains().close(on_ring) != RDM_OK) verdict.broken("closing the first failed");
  check_growing("with the second domain", 1);
  if (probe::domains().close(pinning) != RDM_OK) verdict.broken("closing the second failed");
  check_growing("after closing both", 0);
  if (probe::stats().registered_pinned_bytes != 0) verdict.broken("the books still say pinned");
  return verdict.status();
}
