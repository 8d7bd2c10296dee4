// Uses buffers one after the other, more than the memlock limit allows to pin at once: idle
// registrations make room, so no get is refused, whatever privileges the process has.
#include <vector>

#include "tests/integration/regcache/foreign/foreign.h"

namespace {

constexpr size_t kLength = size_t{1} << 20;
constexpr size_t kMany = 48;

}  // namespace

int main() {
  probe::Verdict verdict;
  probe::need_monitor("any");
  const probe::ForeignDevice device(kLength, {}, verdict);
  char* const memory = probe::map_pages(2 * kMany * kLength);
  size_t refused = 0;
  for (size_t i = 0; i < kMany; ++i) {
    char* const buffer = memory + 2 * i * kLength;
    rdm_mr mr{};
    if (device.get(buffer, kLength, &mr) == RDM_OK) {
      if (device.put(mr) != RDM_OK) verdict.broken("put: %s", probe::foreign().last_error());
    } else if (refused++ == 0) {
      printf("refused: %s\n", probe::foreign().last_error());
    }
  }
  if (refused != 0) verdict.broken("%zu of %zu gets are refused", refused, kMany);
  return verdict.status();
}
