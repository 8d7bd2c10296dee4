// What a large block costs as it comes and grows.
//
//   growing realloc    each growth keeps every page frame and every byte: nothing is copied
//   growing calloc     fresh zeroed blocks cost no page until they are touched
#include <vector>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

uint64_t word_at(size_t page, uint64_t round) { return page * 0x9E3779B97F4A7C15U + round; }

void check_realloc() {
  probe::need_page_frames();
  std::vector<uint64_t> frames;
  size_t moves = 0;
  size_t pages = kMiB / probe::kPage;
  auto* block = static_cast<char*>(malloc(pages * probe::kPage));
  for (uint64_t round = 0; pages < 64 * kMiB / probe::kPage; ++round) {
    frames.resize(pages);
    for (size_t i = 0; i < pages; ++i) {
      const uint64_t word = word_at(i, round);
      memcpy(block + i * probe::kPage, &word, sizeof word);
      frames[i] = probe::page_frame(block + i * probe::kPage);
    }
    const size_t larger = pages + pages / 2 + 1;
    auto* const grown = static_cast<char*>(realloc(block, larger * probe::kPage));
    if (grown == nullptr) return verdict.broken("%zu pages were refused", larger);
    moves += grown == block ? 0 : 1;
    for (size_t i = 0; i < pages; ++i) {
      const uint64_t word = word_at(i, round);
      if (memcmp(grown + i * probe::kPage, &word, sizeof word) != 0) {
        verdict.broken("page %zu of %zu lost its bytes", i, pages);
      }
      if (probe::page_frame(grown + i * probe::kPage) != frames[i]) {
        verdict.broken("page %zu of %zu is another one", i, pages);
        break;
      }
    }
    block = grown;
    pages = larger;
  }
  printf("%zu moves\n", moves);
  if (moves == 0) verdict.broken("no growth had to move");
  if (probe::library().loaded() && probe::stats().pinned_bytes != probe::locked_bytes()) {
    verdict.broken("the books are wrong");
  }
  free(block);
}

// Below RDMALLOC_SPARSE_FROM, so that they are locked, each page when it comes.
void check_calloc() {
  constexpr size_t kCount = 16;
  constexpr size_t kSize = 16 * kMiB;
  free(calloc(1, kSize / 16));
  const uint64_t before = probe::resident_bytes();
  char* blocks[kCount];
  for (char*& block : blocks) {
    block = static_cast<char*>(calloc(1, kSize));
    if (block == nullptr) return verdict.broken("calloc failed");
  }
  const uint64_t got = probe::resident_bytes() - before;
  for (char* block : blocks) {
    for (size_t at = 0; at < kSize; at += kMiB) {
      if (block[at] != 0) verdict.broken("not zero at %zu", at);
    }
    memset(block, 1, kSize / 16);
  }
  const uint64_t touched = probe::resident_bytes() - before;
  printf("%lu KiB for %zu MiB that nobody touched, %lu with a sixteenth of it\n", got >> 10,
         kCount * kSize >> 20, touched >> 10);
  if (got > kCount * kSize / 64) verdict.broken("untouched blocks cost %lu KiB", got >> 10);
  if (touched > kCount * kSize / 8)
    verdict.broken("touching a sixteenth costs more than an eighth");
  if (probe::stats().pinned_bytes != probe::locked_bytes()) verdict.broken("the books are wrong");
  // What comes again was written to, and reads as zero all the same.
  for (char* block : blocks) free(block);
  for (char*& block : blocks) block = static_cast<char*>(calloc(1, kSize));
  for (char* block : blocks) {
    for (size_t at = 0; block != nullptr && at < kSize; at += probe::kPage) {
      if (block[at] != 0) verdict.broken("not zero at %zu, used again", at);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "realloc") == 0) check_realloc();
  if (argc > 1 && strcmp(argv[1], "calloc") == 0) check_calloc();
  return verdict.status();
}
