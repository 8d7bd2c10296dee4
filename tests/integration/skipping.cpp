// Programs that would skip, to test how probe.h judges them.
//
//   skipping absent|broken|refused|unsupported|failed
#include "tests/integration/probe.h"

int main(int, char** argv) {
  const auto is = [&](const char* word) { return strcmp(argv[1], word) == 0; };
  if (is("absent")) probe::skip("there is no device");
  if (is("broken")) {
    probe::Verdict verdict;
    verdict.broken("a byte is stale");
    probe::skip("there is no device");
  }
  if (is("refused")) probe::refused("out of memory");
  if (is("unsupported")) probe::need_domain(RDM_UNSUPPORTED, "there is no device");
  if (is("failed")) probe::need_domain(RDM_SYSTEM, "the device failed");
  return 2;
}
