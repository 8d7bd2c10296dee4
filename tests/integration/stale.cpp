// The stale registration in its shortest form: register a buffer, free it, allocate again at the
// same address, write there, and let the device send. It must send what was written.
//
//   stale KIB
#include "tests/integration/regcache/fixed_buffers.h"

namespace {

probe::Verdict verdict;

// Registers the whole region with the library, the buffer's own pages without.
void register_around(probe::FixedBuffers& device, char* buffer, size_t size) {
  if (!probe::library().loaded()) {
    const uintptr_t page = reinterpret_cast<uintptr_t>(buffer) & ~(probe::kPage - 1);
    if (device.add(reinterpret_cast<void*>(page), size + probe::kPage) < 0) {
      probe::skip("cannot register a buffer");
    }
    return;
  }
  rdm_region region;
  if (!probe::region_of(buffer, 1, &region)) {
    verdict.broken("the buffer is in no region");
  } else if (device.add(region.base, region.length) < 0) {
    probe::refused("cannot register a region");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const size_t size = probe::argument(argc, argv, 1, size_t{40} << 10) << 10;
  static probe::FixedBuffers device;
  char* first = static_cast<char*>(malloc(size));
  memset(first, 'A', size);
  register_around(device, first, size);
  free(first);

  // Keep blocks that land elsewhere, so that sooner or later the address is reused.
  char* second = nullptr;
  for (int attempt = 0; attempt < 100 && second != first; ++attempt) {
    second = static_cast<char*>(malloc(size));
  }
  if (second != first) probe::refused("the address did not come again");
  memset(second, 'B', size);
  char sent[64] = {};
  if (!device.read_through(0, second + size / 2, sizeof sent, sent)) {
    verdict.broken("the device refused the buffer");
  }
  for (const char c : sent) {
    if (c == 'B') continue;
    verdict.broken("the program wrote 'B' and the device sent '%c'", c);
    break;
  }
  return verdict.status();
}
