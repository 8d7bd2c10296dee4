// Checks of programs on the fake CUDA driver: whether copies are direct, what errors say, and
// whether anything is left.
#pragma once

#include "tests/integration/regcache/backends/cuda/cuda_probe.h"

namespace probe {

constexpr size_t kSmall = size_t{32} << 10;
constexpr size_t kLarge = size_t{64} << 10;
constexpr size_t kMiB = size_t{1} << 20;

inline Verdict verdict;
inline char why[512];

inline bool contains(const char* text, const char* words) { return strstr(text, words) != nullptr; }

// A copy of this memory is direct in both directions, and its bytes arrive.
inline void expect_direct(void* memory, size_t length, uint64_t seed, const char* what) {
  const uint64_t direct = fake()->direct_copies;
  copy_there_and_back(memory, length, seed, what, verdict);
  if (fake()->direct_copies != direct + 2) verdict.broken("%s: copies were staged", what);
}

inline void expect_status(int expected, int status, const char* words, const char* sentence) {
  if (status != expected)
    verdict.broken("status %d, promised was %d: %s", status, expected, sentence);
  if (!contains(sentence, words)) verdict.broken("\"%s\" does not say \"%s\"", sentence, words);
}

inline void expect_nothing_left() {
  if (fake()->registered != 0) {
    verdict.broken("%lu registrations are left", fake()->registered.load());
  }
  if (of_fake<decltype(fake_cuda_depth)>("fake_cuda_depth")() > 1)
    verdict.broken("a context is left current");
}

// One get and put of foreign memory, with a copy in between.
inline void use(rdm_domain* domain, char* memory, size_t length, uint64_t seed, const char* what) {
  rdm_mr mr{};
  if (domains().get(domain, memory, length, &mr) != RDM_OK) {
    verdict.broken("%s: %s", what, domains().last_error());
    return;
  }
  expect_direct(memory, length, seed, what);
  if (domains().put(domain, &mr) != RDM_OK) verdict.broken("%s: rdm_put failed", what);
}

}  // namespace probe
