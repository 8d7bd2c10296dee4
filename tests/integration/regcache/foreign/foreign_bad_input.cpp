// How rdm_get, rdm_put and related functions reject bad requests: with a status and a message,
// without a crash. Window memory that is not registered with the window is handled as foreign
// memory.
//
//   foreign_bad_input arguments|memory|overflow|sparse
#include <fstream>
#include <string>
#include <utility>

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

using probe::kPage;

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

// `also`: another correct answer.
void expect(const char* what, int status, int expected, int also = -1) {
  const char* why = status == RDM_OK ? "" : probe::foreign().last_error();
  printf("%s: %s: %s\n", what, probe::foreign().strerror(status), why);
  if (status != expected && status != also)
    verdict.broken("%s: status %d, and not %d", what, status, expected);
  if (status != RDM_OK && strlen(why) < 8) verdict.broken("%s: no sentence", what);
}

void expect_get(const probe::ForeignDevice& device, const char* what, const void* address,
                size_t length, int expected, int also = -1) {
  rdm_mr mr{};
  memset(&mr, 0x5A, sizeof mr);
  const rdm_mr untouched = mr;
  const int status = device.get(address, length, &mr);
  expect(what, status, expected, also);
  if (status == RDM_OK) {
    const auto* base = static_cast<const char*>(mr.base);
    if (static_cast<const char*>(address) < base ||
        static_cast<const char*>(address) + length > base + mr.length) {
      verdict.broken("%s: what was got does not cover it", what);
    }
    expect("giving it back", device.put(mr), RDM_OK);
  } else if (memcmp(&mr, &untouched, sizeof mr) != 0) {
    verdict.broken("%s: was refused, and its output was set", what);
  }
}

void check_arguments() {
  probe::ForeignDevice device(kPage, {}, verdict);
  const probe::ForeignLibrary& library = probe::foreign();
  char* page = probe::map_pages(4 * kPage);
  rdm_mr mr{};
  expect("no domain", library.get(nullptr, page, kPage, &mr), RDM_INVALID);
  expect("nowhere to put the answer", library.get(device.domain(), page, kPage, nullptr),
         RDM_INVALID);
  expect("no registration", library.put(device.domain(), nullptr), RDM_INVALID);
  expect("put without a domain", library.put(nullptr, &mr), RDM_INVALID);
  expect_get(device, "no bytes", page, 0, RDM_INVALID);
  expect_get(device, "no bytes at null", nullptr, 0, RDM_INVALID);
  expect_get(device, "a range that wraps around", page, SIZE_MAX, RDM_INVALID);
  expect_get(device, "a range that wraps around by a page", page,
             SIZE_MAX - reinterpret_cast<uintptr_t>(page) + 2, RDM_INVALID);
  // The window may lie there.
  expect_get(device, "a range up to the last byte", page,
             SIZE_MAX - reinterpret_cast<uintptr_t>(page), RDM_UNSUPPORTED, RDM_INVALID);
  constexpr size_t kLong = size_t{4} << 30;
  void* reserved =
      mmap(nullptr, kLong, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  expect_get(device, "more than the device registers at a time", reserved, kLong, RDM_UNSUPPORTED);
  library.invalidate(nullptr, SIZE_MAX);
  library.invalidate(page, 0);
  library.invalidate(page, SIZE_MAX);
  expect_get(device, "a page, after all of memory was called invalid", page, kPage, RDM_OK);
}

void check_puts() {
  probe::ForeignDevice device(kPage, {}, verdict);
  probe::ForeignDevice other(kPage, {}, verdict);
  char* page = probe::map_pages(4 * kPage);
  rdm_mr mr{};
  expect("one page", device.get(page, kPage, &mr), RDM_OK);
  expect("put in another domain", other.put(mr), RDM_INVALID);
  rdm_mr shifted = mr;
  shifted.base = static_cast<char*>(mr.base) + 3 * kPage;
  expect("put of something else", device.put(shifted), RDM_INVALID);
  rdm_mr garbage;
  memset(&garbage, 0xA5, sizeof garbage);
  expect("put of garbage", device.put(garbage), RDM_INVALID);
  expect("put of zeroes", device.put(rdm_mr{}), RDM_INVALID);

  expect("closing with a reference out", device.close(), RDM_BUSY);
  expect_get(device, "getting again after that", page, kPage, RDM_OK);
  expect("put", device.put(mr), RDM_OK);
  expect("put twice", device.put(mr), RDM_INVALID);
  rdm_domain* const closed = device.domain();
  expect("closing", device.close(), RDM_OK);
  expect("get after closing", probe::foreign().get(closed, page, kPage, &mr), RDM_INVALID);
  expect("put after closing", probe::foreign().put(closed, &mr), RDM_INVALID);
}

void check_options() {
  probe::Device device(kPage);
  probe::DomainOptions options(1u << 30);
  rdm_domain* domain = nullptr;
  const int status = probe::domains().open(device.ring_fd(), &options, &domain);
  printf("an unknown flag: %s: %s\n", probe::foreign().strerror(status), options.why);
  if (status != RDM_INVALID) verdict.broken("an unknown flag: status %d", status);
}

// Memory that a device cannot write to.
void check_memory() {
  probe::ForeignDevice device(kPage, {}, verdict);
  char* pages = probe::map_pages(8 * kPage);
  munmap(pages + 4 * kPage, 4 * kPage);
  expect_get(device, "mapped memory", pages, 4 * kPage, RDM_OK);
  expect_get(device, "memory that ends in a hole", pages, 5 * kPage, RDM_SYSTEM);
  expect_get(device, "memory that is not mapped", pages + 4 * kPage, kPage, RDM_SYSTEM);
  expect_get(device, "the null page", nullptr, kPage, RDM_SYSTEM);
  expect_get(device, "the kernel's half", reinterpret_cast<void*>(UINTPTR_MAX << 20), kPage,
             RDM_SYSTEM);
  char* closed = probe::map_pages(4 * kPage);
  mprotect(closed, 4 * kPage, PROT_NONE);
  expect_get(device, "PROT_NONE", closed, 4 * kPage, RDM_SYSTEM);
  char* constant = probe::map_pages(4 * kPage);
  mprotect(constant, 4 * kPage, PROT_READ);
  expect_get(device, "read-only memory, in a domain that writes", constant, kPage, RDM_SYSTEM);
  expect_get(device, "code", reinterpret_cast<void*>(&memcpy), 16, RDM_SYSTEM);
  expect_get(device, "what was there before, after all that", pages, 4 * kPage, RDM_OK);
}

// The range around the address in which the kernel's mappings follow one another.
std::pair<uintptr_t, uintptr_t> mapped_around(uintptr_t address) {
  std::pair<uintptr_t, uintptr_t> run{0, 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    if (sscanf(line.c_str(), "%lx-%lx", &from, &to) != 2) continue;
    if (from != run.second) {
      if (address < run.second) break;
      run.first = from;
    }
    run.second = to;
  }
  return run;
}

// The window is one range: where its memory ends, foreign memory begins, unless more follows.
void check_borders() {
  probe::ForeignDevice device(kPage, {}, verdict);
  auto* inside = static_cast<char*>(probe::grow(kMiB));
  const uint64_t window = probe::stats().window_bytes;
  const auto [from, to] = mapped_around(reinterpret_cast<uintptr_t>(inside));
  auto* base = reinterpret_cast<char*>(from);
  printf("window from %p, %lu bytes\n", static_cast<void*>(base), window);
  if (to - from != window) return verdict.broken("the window does not end where it should");
  expect_get(device, "half before the window", base - kPage, 2 * kPage, RDM_INVALID);
  expect_get(device, "half behind the window", base + window - kPage, 2 * kPage, RDM_INVALID);
  expect_get(device, "all of the window and more", base - kPage, window + 2 * kPage, RDM_INVALID);
  expect_get(device, "memory of the window", inside, kMiB, RDM_OK);
}

// Heap memory transfers correctly however it is registered; `length` bytes of it at a time.
void check_unpinned(size_t length, const char* what, uint64_t rdm_stats::*figure) {
  probe::ForeignDevice device(kMiB, {}, verdict);
  probe::Staleness staleness;
  for (uint64_t round = 1; round <= 50; ++round) {
    auto* memory = static_cast<char*>(calloc(length, 1));
    if (memory == nullptr) return verdict.broken("calloc failed");
    char* const part = memory + (length / 2 / kPage) * kPage + 100;
    staleness.check(device.send(part, kMiB / 2, probe::Content::zero()), "calloc", part, kMiB / 2,
                    round);
    const probe::Content content(round);
    content.fill(part, kMiB / 2);
    staleness.check(device.send(part, kMiB / 2, content), "writing", part, kMiB / 2, round);
    staleness.check(device.receive(part, kMiB / 2, probe::Content(round + 1000)), "receiving", part,
                    kMiB / 2, round);
    if (round == 1 && probe::stats().*figure == 0) verdict.broken("there is no %s memory", what);
    free(memory);
  }
  if (staleness.status() != probe::kHolds) {
    verdict.broken("%s memory: %lu times stale", what, staleness.stale());
  }
  if (device.close() != RDM_OK) verdict.broken("closing: %s", probe::foreign().last_error());
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  (void)probe::foreign();
  const uint64_t before = probe::pinned_by_kernel();
  if (strcmp(what, "arguments") == 0) {
    check_arguments();
    check_puts();
    check_options();
  }
  if (strcmp(what, "memory") == 0) {
    check_memory();
    check_borders();
  }
  if (strcmp(what, "overflow") == 0) {
    check_unpinned(2 * kMiB, "overflow", &rdm_stats::overflow_bytes);
  }
  if (strcmp(what, "sparse") == 0) {
    check_unpinned(2 * kMiB, "sparse", &rdm_stats::sparse_bytes);
    check_unpinned(size_t{1} << 30, "sparse", &rdm_stats::sparse_bytes);
  }
  if (!probe::comes_to(before, probe::pinned_by_kernel)) verdict.broken("pages stay pinned");
  return verdict.status();
}
