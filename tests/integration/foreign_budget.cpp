// Buffers that are used one after the other, more of them than the memlock limit allows to pin at a
// time: what is idle makes room, so that no get is refused, whatever rights the process claims.
#include <vector>

#include "tests/integration/foreign.h"

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
