// What the library reports about itself: kinds of regions, its limits, its monitor, its statistics.
//
//   kinds regions        a pinned region, one beyond the budget, and a sparse one
//   kinds limit cap|memlock|available|node  what the budget reports as its limit
//   kinds sizes          statistics fill as much as the caller has room for
//   kinds json           the JSON output matches the statistics
//   kinds monitor WORD   the active monitor has this name, and a reason
#include <sys/mman.h>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

void grow(size_t mib, bool zeroed) {
  void* const block = zeroed ? calloc(mib, kMiB) : malloc(mib * kMiB);
  if (block == nullptr) probe::refused("out of memory");
  memset(block, 1, kMiB);
}

// By an address, a region is the one that the walk came to.
void check_by_address(const rdm_region& region) {
  for (const size_t at : {size_t{0}, region.length - 1}) {
    const char* const address = static_cast<char*>(region.base) + at;
    if (probe::library().owns(address) == 0) continue;  // retired
    rdm_region found{};
    if (probe::library().region_of(address, &found) != RDM_OK || found.base != region.base ||
        found.length != region.length || found.kind != region.kind) {
      verdict.broken("another region than the walk's holds %p", static_cast<const void*>(address));
    }
  }
}

uint64_t held_in(int kind) {
  uint64_t bytes = 0;
  rdm_region region{};
  for (size_t i = 0; probe::library().region_get(i, &region) == RDM_OK; ++i) {
    check_by_address(region);
    if (region.kind != kind) continue;
    bytes += region.length;
    if ((region.locked != 0) != (kind == RDM_REGION_PINNED)) {
      verdict.broken("a region of kind %d says %d of being locked", kind, region.locked);
    }
  }
  return bytes;
}

void expect(const char* name, int kind, uint64_t bytes) {
  printf("%s: %lu MiB\n", name, bytes / kMiB);
  if (bytes == 0) verdict.broken("there is no %s memory", name);
  if (held_in(kind) != bytes) verdict.broken("%s: regions have %lu bytes", name, held_in(kind));
}

void check_regions() {
  grow(4, false);
  grow(16, false);
  grow(64, true);
  const rdm_stats now = probe::stats();
  expect("pinned", RDM_REGION_PINNED, now.pinned_bytes);
  expect("overflow", RDM_REGION_OVERFLOW, now.overflow_bytes);
  expect("sparse", RDM_REGION_SPARSE, now.sparse_bytes);
  rdm_region none{};
  if (probe::library().region_of(&none, &none) != RDM_NOT_OWNED) {
    verdict.broken("the stack lies in a region");
  }
}

void check_limit(uint64_t expected) {
  for (int i = 0; i < 16; ++i) grow(8, false);
  const rdm_stats now = probe::stats();
  printf("limited by %lu to %lu KiB\n", now.budget_limited_by, now.budget_bytes >> 10);
  if (now.overflow_bytes == 0) verdict.broken("nothing is beyond the budget");
  if (now.budget_limited_by != expected) verdict.broken("not by %lu", expected);
}

// As a program built with an older header would, and one with a newer.
void check_sizes() {
  struct {
    rdm_stats known;
    uint64_t newer;
  } out;
  memset(&out, 0xFF, sizeof out);
  const auto get = probe::library().stats_get;
  if (get(&out.known, 2 * sizeof(uint64_t)) != RDM_OK) verdict.broken("an older struct is refused");
  if (out.known.peak_live_bytes == UINT64_MAX) verdict.broken("what there is room for is not set");
  if (out.known.allocated_bytes != UINT64_MAX) verdict.broken("what is behind it is written to");
  if (get(&out.known, sizeof out) != RDM_OK) verdict.broken("a newer struct is refused");
  if (out.known.held_bytes == 0 || out.newer != 0) verdict.broken("what is not known is not 0");
  if (get(&out.known, 0) != RDM_INVALID) verdict.broken("no room is room");
}

void check_json() {
  grow(4, false);
  const auto write_json = probe::symbol<decltype(rdm_stats_json)>("rdm_stats_json");
  const int file = memfd_create("json", MFD_CLOEXEC);
  if (file < 0) probe::skip("no file in memory");
  if (write_json(file) != RDM_OK) verdict.broken("it is not written");
  static char text[1 << 16];
  const ssize_t length = pread(file, text, sizeof text - 1, 0);
  if (length < 2 || text[0] != '{') return verdict.broken("it is no object");
  const rdm_stats now = probe::stats();
  char said[64];
  snprintf(said, sizeof said, "\"held_bytes\": %lu,", now.held_bytes);
  if (strstr(text, said) == nullptr) verdict.broken("there is no %s", said);
  snprintf(said, sizeof said, "\"regions\": %lu,", now.regions);
  if (strstr(text, said) == nullptr) verdict.broken("there is no %s", said);
}

void check_monitor(const char* expected) {
  const char* why = "";
  const char* const found = probe::symbol<decltype(rdm_monitor)>("rdm_monitor")(&why);
  printf("%s: %s\n", found, why);
  if (strcmp(found, expected) != 0) verdict.broken("it is not %s", expected);
  if (strlen(why) < 8) verdict.broken("there is no reason");
}

uint64_t limit_of(const char* word) {
  if (strcmp(word, "cap") == 0) return RDM_LIMITED_BY_CAP;
  if (strcmp(word, "memlock") == 0) return RDM_LIMITED_BY_MEMLOCK;
  if (strcmp(word, "available") == 0) return RDM_LIMITED_BY_AVAILABLE;
  return RDM_LIMITED_BY_NODE;
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const char* what = argc > 1 ? argv[1] : "";
  setvbuf(stdout, nullptr, _IONBF, 0);  // printing must not allocate
  if (strcmp(what, "regions") == 0) check_regions();
  if (strcmp(what, "limit") == 0 && argc > 2) check_limit(limit_of(argv[2]));
  if (strcmp(what, "sizes") == 0) check_sizes();
  if (strcmp(what, "json") == 0) check_json();
  if (strcmp(what, "monitor") == 0 && argc > 2) check_monitor(argv[2]);
  return verdict.status();
}
