// fork: the child's heap works and its books say that none of it is pinned; the parent's memory,
// page frames and books are unchanged; both books match the kernel's.

#include <vector>

#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;

constexpr size_t kObjects = 500;

struct Held {
  unsigned char* bytes;
  size_t size;
  uint64_t frame;
};

bool is_kept(const Held& held, size_t index) {
  for (size_t i = 0; i < held.size; ++i) {
    if (held.bytes[i] != static_cast<unsigned char>(index)) return false;
  }
  return true;
}

void check_books(const char* who) {
  const uint64_t locked = probe::locked_bytes();
  const uint64_t pinned = probe::stats().pinned_bytes;
  if (locked != pinned) {
    verdict.broken("%s: books say %lu pinned, the kernel %lu", who, pinned, locked);
  }
}

int child(std::vector<Held>& held, const rdm_stats& before) {
  const rdm_stats now = probe::stats();
  if (now.forked != 1) verdict.broken("child: does not know that it was forked");
  if (now.pinned_bytes != 0) verdict.broken("child: claims %lu pinned bytes", now.pinned_bytes);
  if (now.held_bytes != before.held_bytes) verdict.broken("child: holds something else");
  check_books("child");
  probe::Random random(1);
  for (size_t round = 0; round < 20; ++round) {
    for (size_t i = 0; i < held.size(); ++i) {
      if (round == 0 && !is_kept(held[i], i)) verdict.broken("child: object %zu was lost", i);
      held[i].size = random.size_between(16, 1 << 19);
      held[i].bytes = static_cast<unsigned char*>(realloc(held[i].bytes, held[i].size));
      memset(held[i].bytes, static_cast<int>(i & 0xff), held[i].size);
    }
  }
  for (size_t i = 0; i < held.size(); ++i) {
    if (!is_kept(held[i], i)) verdict.broken("child: object %zu changed", i);
    free(held[i].bytes);
  }
  check_books("child after its work");
  return verdict.status();
}

}  // namespace

int main() {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const bool frames = getuid() == 0;
  probe::Random random(2);
  std::vector<Held> held(kObjects);
  for (size_t i = 0; i < kObjects; ++i) {
    held[i].size = random.size_between(16, 1 << 19);
    held[i].bytes = static_cast<unsigned char*>(malloc(held[i].size));
    memset(held[i].bytes, static_cast<int>(i & 0xff), held[i].size);
  }
  check_books("parent before");
  const rdm_stats before = probe::stats();
  verdict.expect_good_end("the child", probe::run_child([&] { return child(held, before); }));

  const rdm_stats after = probe::stats();
  if (after.forked != 0) verdict.broken("parent: believes that it was forked");
  if (after.pinned_bytes != before.pinned_bytes) verdict.broken("parent: pinned bytes changed");
  check_books("parent after");
  for (size_t i = 0; i < kObjects; ++i) {
    if (!is_kept(held[i], i)) verdict.broken("parent: object %zu changed", i);
    if (frames && probe::page_frame(held[i].bytes) == 0) verdict.broken("parent: page missing");
    free(held[i].bytes);
  }
  return verdict.status();
}
