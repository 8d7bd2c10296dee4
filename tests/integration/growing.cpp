// The cost of a large block when it is allocated and grows.
//
//   growing realloc    each growth keeps every page frame and every byte: nothing is copied
//   growing steps      blocks that grow side by side, page by page, keep their bytes and have
//   another
//                      address a few times in each doubling
//   growing calloc     fresh zeroed blocks cost no page until they are touched
//   growing pairs calloc|malloc   10,000 pairs of growing blocks of a gigabyte and more and their
//                                 free() are as fast at the end as at the start, touch few pages
//                                 more than the program, and leave nothing
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
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

void check_steps() {
  constexpr size_t kBlocks = 8;
  const size_t last = 16 * kMiB / probe::kPage;
  constexpr size_t kDoublings = 12;       // from a page to the last size
  constexpr size_t kMostInDoubling = 10;  // an eighth more each time makes six
  char* blocks[kBlocks] = {};
  size_t moves = 0;
  for (size_t pages = 1; pages <= last; ++pages) {
    for (size_t i = 0; i < kBlocks; ++i) {
      auto* const grown = static_cast<char*>(realloc(blocks[i], pages * probe::kPage));
      if (grown == nullptr) return verdict.broken("%zu pages were refused", pages);
      moves += grown == blocks[i] ? 0 : 1;
      blocks[i] = grown;
      const uint64_t word = word_at(pages, i);
      memcpy(grown + (pages - 1) * probe::kPage, &word, sizeof word);
    }
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    for (size_t pages = 1; pages <= last; ++pages) {
      const uint64_t word = word_at(pages, i);
      if (memcmp(blocks[i] + (pages - 1) * probe::kPage, &word, sizeof word) != 0) {
        verdict.broken("page %zu of block %zu lost its bytes", pages, i);
      }
    }
  }
  printf("%zu moves of %zu blocks\n", moves, kBlocks);
  if (moves > kBlocks * kDoublings * kMostInDoubling) verdict.broken("%zu moves", moves);
  if (probe::library().loaded() && probe::stats().pinned_bytes != probe::locked_bytes()) {
    verdict.broken("the books are wrong");
  }
  for (char* block : blocks) free(block);
}

// Below RDMALLOC_SPARSE_FROM, so that each page is locked when it is touched.
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
  // Reused memory was written to, but must still read as zero.
  for (char* block : blocks) free(block);
  for (char*& block : blocks) block = static_cast<char*>(calloc(1, kSize));
  for (char* block : blocks) {
    for (size_t at = 0; block != nullptr && at < kSize; at += probe::kPage) {
      if (block[at] != 0) verdict.broken("not zero at %zu, used again", at);
    }
  }
}

// CPU time, which excludes other programs.
uint64_t used_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

uint64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_minflt);
}

// CPU time in microseconds for this many pairs.
uint64_t time_pairs(size_t count, size_t* size, bool zeroed) {
  constexpr size_t kMore = 64 << 10;
  const uint64_t started = used_us();
  for (size_t i = 0; i < count; ++i, *size += kMore) {
    auto* const block = static_cast<char*>(zeroed ? calloc(1, *size) : malloc(*size));
    if (block == nullptr) {
      verdict.broken("%zu MiB were refused", *size / kMiB);
      break;
    }
    block[0] = block[*size - 1] = 1;
    free(block);
  }
  return used_us() - started;
}

// The same for mappings of the program's own, which show how fast the machine is at the moment.
uint64_t time_maps(size_t count, size_t size) {
  const uint64_t started = used_us();
  for (size_t i = 0; i < count; ++i) {
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      verdict.broken("%zu MiB cannot be mapped", size / kMiB);
      break;
    }
    auto* const bytes = static_cast<char*>(memory);
    bytes[0] = bytes[size - 1] = 1;
    munmap(memory, size);
  }
  return used_us() - started;
}

void check_pairs(bool zeroed) {
  constexpr size_t kPairs = 10'000;
  constexpr size_t kBatches = 20;
  constexpr size_t kMostFaults = 16;
  constexpr size_t kAtOnce = 10;  // in turns, so that whatever else runs slows both down
  size_t size = 1024 * kMiB;
  double halves[] = {1e9, 1e9};
  uint64_t faults = 0;
  for (size_t i = 0; i < kBatches; ++i) {
    uint64_t mapped = 1;
    uint64_t pairs = 0;
    for (size_t done = 0; done < kPairs / kBatches; done += kAtOnce) {
      mapped += time_maps(kAtOnce, size);
      faults -= page_faults();
      pairs += time_pairs(kAtOnce, &size, zeroed);
      faults += page_faults();
    }
    if (verdict.count() != 0) return;
    double& half = halves[i / (kBatches / 2)];
    half = std::min(half, static_cast<double>(pairs) / static_cast<double>(mapped));
  }
  const auto [first, last] = halves;
  const uint64_t held = probe::stats().held_bytes;
  printf(
      "%zu pairs up to %zu MiB: a batch takes %.2f times mappings at first, %.2f in the end; "
      "%.1f page faults each; %lu KiB held\n",
      kPairs, size / kMiB, first, last, static_cast<double>(faults) / kPairs, held >> 10);
  // On a busy machine the end may take 1.4 times the beginning.
  if (last > first * 2) verdict.broken("pairs take longer and longer");
  // Two of the program's, and the tables of what grew; a table read as a whole takes a thousand.
  if (faults > kPairs * kMostFaults) verdict.broken("pairs take %lu page faults", faults);
  if (held > 64 * kMiB) verdict.broken("%lu MiB are held for nothing", held / kMiB);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "realloc") == 0) check_realloc();
  if (argc > 1 && strcmp(argv[1], "steps") == 0) check_steps();
  if (argc > 1 && strcmp(argv[1], "calloc") == 0) check_calloc();
  if (argc > 2 && strcmp(argv[1], "pairs") == 0) check_pairs(strcmp(argv[2], "calloc") == 0);
  return verdict.status();
}
