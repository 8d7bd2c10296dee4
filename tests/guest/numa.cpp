// Which node memory lies on: what a thread allocates lies on that thread's node, even when a thread
// of another node touches it first, and even when it reuses memory freed on another node.
//
//   numa
#include <sys/syscall.h>

#include <vector>

#include "tests/guest/on_node.h"

namespace {

constexpr size_t kBuffers = 8;
constexpr size_t kSize = size_t{1} << 20;
probe::Verdict verdict;

using guest::kNodes;
using guest::on_node;
using Buffers = std::vector<unsigned char*>;

Buffers take() {
  Buffers taken;
  for (size_t i = 0; i < kBuffers; ++i) {
    auto* bytes = static_cast<unsigned char*>(malloc(kSize));
    if (bytes == nullptr) probe::refused("out of memory");
    taken.push_back(bytes);
  }
  return taken;
}

void touch(const Buffers& all) {
  for (unsigned char* bytes : all) memset(bytes, 1, kSize);
}

void release(const Buffers& all) {
  for (unsigned char* bytes : all) free(bytes);
}

// Looks only at whole pages inside the buffers.
void check(const Buffers& all, int node, const char* what) {
  size_t elsewhere = 0;
  for (unsigned char* bytes : all) {
    for (size_t at = probe::kPage; at + probe::kPage < kSize; at += probe::kPage) {
      void* page = bytes + at;
      int where = -1;
      if (syscall(SYS_move_pages, 0, 1UL, &page, nullptr, &where, 0) != 0) {
        probe::skip("move_pages cannot be asked");
      }
      elsewhere += where == node ? 0 : 1;
    }
  }
  if (elsewhere != 0) verdict.broken("%s: %zu pages are not on node %d", what, elsewhere, node);
}

}  // namespace

int main() {
  if (access("/sys/devices/system/node/node1", F_OK) != 0) probe::skip("there is one NUMA node");
  for (int node = 0; node < kNodes; ++node) {
    Buffers mine;
    on_node(node, [&] { mine = take(); });
    on_node(1 - node, [&] { touch(mine); });
    check(mine, node, "malloc by a thread, first touch by the other node's");
    on_node(node, [&] { release(mine); });

    Buffers theirs;
    on_node(1 - node, [&] {
      theirs = take();
      touch(theirs);
    });
    check(theirs, 1 - node, "malloc of what the other node's thread had freed");
    on_node(1 - node, [&] { release(theirs); });
  }
  return verdict.status();
}
