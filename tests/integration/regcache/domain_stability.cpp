// Whatever is tried on heap pages, the device and the program keep seeing the same page: the kernel
// compacts memory, the program gives advice that would drop pages, or unmaps and remaps them while
// the kernel forbids that (RDMALLOC_SEAL=on). The control does the same to registered memory of
// stock malloc.
//
//   domain_stability advice|sealed
#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kSizes[] = {64 << 10, 1 << 20, 8 << 20};
constexpr size_t kRoom = 8 << 20;

constexpr int kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1: newer than some libc's headers

probe::Verdict verdict;
uint64_t seed = 0;

// Both directions: what the program writes is sent, what the peer sends is read.
void check(probe::KeyedDevice& keyed, char* buffer, size_t size, const char* after) {
  const int key = keyed.key_of(buffer, size);
  if (key < 0) return verdict.broken("after %s: no key", after);
  const auto index = static_cast<uint32_t>(key);
  const probe::Pattern written(++seed);
  written.fill(buffer, size);
  if (keyed.device().send(index, buffer, size) != 0 ||
      written.mismatch(keyed.device().peer(), size) != size) {
    verdict.broken("after %s: the peer does not get what the program wrote", after);
  }
  const probe::Pattern sent(++seed);
  sent.fill(keyed.device().peer(), size);
  if (keyed.device().receive(index, buffer, size) != 0 || sent.mismatch(buffer, size) != size) {
    verdict.broken("after %s: the program does not see what the peer sent", after);
  }
}

void compact() {
  const int fd = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "1", 1) != 1) probe::skip("compacting memory needs root");
  close(fd);
}

// The first page that lies wholly in the buffer.
char* first_page(char* buffer) {
  const auto at = reinterpret_cast<uintptr_t>(buffer) + probe::kPage - 1;
  return reinterpret_cast<char*>(at & ~(probe::kPage - 1));
}

bool is_zero(const char* bytes, size_t length) {
  return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

// Also through syscall(); and unwritable pages stay as they are.
void try_raw_advice(char* pages, size_t length) {
  memset(pages, 1, length);
  if (syscall(SYS_madvise, pages, length, MADV_DONTNEED) != 0 || !is_zero(pages, length)) {
    verdict.broken("after MADV_DONTNEED by syscall(): no zeroes");
  }
  memset(pages, 1, length);
  if (mprotect(pages, length, PROT_READ) != 0) return verdict.broken("mprotect fails");
  if (madvise(pages, length, MADV_DONTNEED) == 0 && !is_zero(pages, length)) {
    verdict.broken("MADV_DONTNEED of what may only be read succeeds, and leaves it");
  }
  if (mprotect(pages, length, PROT_READ | PROT_WRITE) != 0) verdict.broken("mprotect fails");
}

void try_advice(probe::KeyedDevice& keyed, char* buffer, size_t size) {
  static constexpr struct {
    int advice;
    const char* name;
  } kAdvice[] = {{MADV_DONTNEED, "MADV_DONTNEED"}, {MADV_FREE, "MADV_FREE"},
                 {MADV_PAGEOUT, "MADV_PAGEOUT"},   {MADV_COLD, "MADV_COLD"},
                 {MADV_REMOVE, "MADV_REMOVE"},     {kCollapse, "MADV_COLLAPSE"}};
  char* pages = first_page(buffer);
  const size_t length = (size - static_cast<size_t>(pages - buffer)) & ~(probe::kPage - 1);
  try_raw_advice(pages, length);
  check(keyed, buffer, size, "madvise by its number");
  for (const auto& tried : kAdvice) {
    const uint64_t frame = probe::page_frame(pages);
    const bool is_done = madvise(pages, length, tried.advice) == 0;
    if (tried.advice == MADV_DONTNEED) {
      if (!is_done || !is_zero(pages, length)) verdict.broken("after %s: no zeroes", tried.name);
      if (probe::page_frame(pages) != frame) verdict.broken("%s drops a page", tried.name);
    } else if (tried.advice == MADV_FREE && !is_done) {
      verdict.broken("%s fails", tried.name);
    }
    check(keyed, buffer, size, tried.name);
  }
}

void try_unmapping(probe::KeyedDevice& keyed, char* buffer, size_t size) {
  char* page = first_page(buffer);
  const auto refused = [](bool failed, const char* what) {
    if (!failed || errno != EPERM) verdict.broken("%s is not refused", what);
  };
  refused(munmap(page, probe::kPage) != 0, "munmap");
  refused(mremap(page, probe::kPage, 2 * probe::kPage, MREMAP_MAYMOVE) == MAP_FAILED, "mremap");
  refused(mmap(page, probe::kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
               -1, 0) == MAP_FAILED,
          "mmap over it");
  refused(mprotect(page, probe::kPage, PROT_NONE) != 0, "mprotect");
  check(keyed, buffer, size, "attempts to unmap");
}

}  // namespace

int main(int argc, char** argv) {
  const bool sealed = argc > 1 && strcmp(argv[1], "sealed") == 0;
  if (sealed) probe::need_seals();
  static probe::KeyedDevice keyed(kRoom, verdict);
  for (const size_t size : kSizes) {
    auto* buffer = static_cast<char*>(probe::grow(size));
    if (sealed && probe::stats().sealed == 0) verdict.broken("no region is sealed");
    check(keyed, buffer, size, "malloc");
    const uint64_t frame = probe::page_frame(first_page(buffer));
    compact();
    check(keyed, buffer, size, "compaction");
    if (sealed) {
      try_unmapping(keyed, buffer, size);
    } else {
      try_advice(keyed, buffer, size);
    }
    if (probe::page_frame(first_page(buffer)) != frame) verdict.broken("the page has moved");
    free(buffer);
  }
  return verdict.status();
}
