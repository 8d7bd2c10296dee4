// A change that no monitor sees: a hole is punched into a file that is mapped here, which replaces
// its page. rdm_invalidate reports it, and registrations of the range are not used again. Without
// that call a device keeps the old page.
//
//   foreign_told told|untold
#include <fcntl.h>

#include "tests/integration/regcache/foreign/foreign.h"

namespace {

const size_t kLength = 16 * probe::kPage;

int punch(int file) {
  return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                   static_cast<off_t>(kLength));
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_told = argc > 1 && strcmp(argv[1], "told") == 0;
  probe::Staleness staleness;
  probe::ForeignDevice device(2 * kLength, {}, staleness.verdict());
  const int file = memfd_create("changed", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 2 * kLength) != 0) probe::skip("no file in memory");
  void* const mapped = mmap(nullptr, 2 * kLength, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) probe::skip("cannot map a file in memory");
  auto* const changed = static_cast<char*>(mapped);
  char* const beside = probe::map_pages(kLength);
  for (uint64_t round = 1; round <= 20; ++round) {
    const probe::Content before(round);
    before.fill(changed, kLength);
    before.fill(beside, kLength);
    staleness.check(device.send(changed, kLength, before), "writing", changed, kLength, round);
    staleness.check(device.send(beside, kLength, before), "writing", beside, kLength, round);
    if (punch(file) != 0) probe::skip("no holes can be punched into a file in memory");
    if (is_told) probe::foreign().invalidate(changed, kLength);
    const probe::Content after(round + 1000);
    after.fill(changed, kLength);
    staleness.check(device.send(changed, kLength, after), "a hole", changed, kLength, round);
    // Registrations elsewhere are kept.
    const uint64_t hits = probe::stats().foreign_hits;
    staleness.check(device.send(beside, kLength, before), "a hole", beside, kLength, round);
    if (probe::stats().foreign_hits == hits) {
      staleness.verdict().broken("what was not told of is registered anew");
    }
  }
  return staleness.status();
}
