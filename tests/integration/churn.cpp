// Threads replace blocks for long, in phases whose sizes differ, and write to all of them.
//
//   churn THREADS OPERATIONS PERCENT
//
// What the blocks leave behind stays bounded, however long it goes on: the kernel's mappings, the
// regions, page tables, and what is resident: PERCENT of what was ever live at once. Each block
// keeps its bytes.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/probe.h"

namespace {

constexpr size_t kLiveOfThread = size_t{96} << 20;
constexpr size_t kSlots = 4096;
constexpr uint64_t kBetweenLooks = uint64_t{1} << 17;
// For each thread at most, so that each phase comes again and again.
constexpr uint64_t kOperationsOfPhase = uint64_t{1} << 20;
constexpr uint64_t kPhasesAtLeast = 8;
constexpr uint64_t kMostRegions = 4096;
constexpr uint64_t kMostPageTables = uint64_t{8} << 20;

probe::Verdict verdict;
std::atomic<uint64_t> live{0};
std::atomic<uint64_t> most_live{0};

struct Sizes {
  size_t least;
  size_t most;
};
constexpr Sizes kPhases[] = {{64, 16 << 10},
                             {32 << 10, 1 << 20},
                             {512, 256 << 10},
                             {64 << 10, 4 << 20},
                             {8 << 10, 128 << 10}};

void note_live(size_t more) {
  const uint64_t now = live.fetch_add(more) + more;
  uint64_t most = most_live.load();
  while (now > most && !most_live.compare_exchange_weak(most, now)) {
  }
}

class Block {
 public:
  bool fill(size_t size, uint64_t seed) {
    bytes_ = static_cast<char*>(malloc(size));
    size_ = size;
    seed_ = seed;
    if (bytes_ == nullptr) return false;
    note_live(size);
    touch(0);
    return true;
  }
  bool resize(size_t size) {
    auto* const resized = static_cast<char*>(realloc(bytes_, size));
    if (resized == nullptr) return false;
    bytes_ = resized;
    live.fetch_sub(size_);
    note_live(size);
    const size_t before = size_;
    if (size < before) {
      size_ = size;
      put_last();
    } else {
      is_whole(before);
      size_ = size;
      touch(before / probe::kPage * probe::kPage + probe::kPage);
    }
    return true;
  }
  void empty() {
    if (bytes_ == nullptr) return;
    is_whole(size_);
    free(bytes_);
    live.fetch_sub(size_);
    bytes_ = nullptr;
    size_ = 0;
  }
  size_t size() const { return size_; }

 private:
  uint64_t word_at(size_t at) const { return (seed_ + at) * 0x9E3779B97F4A7C15U; }
  void put(size_t at) {
    const uint64_t word = word_at(at);
    memcpy(bytes_ + at, &word, sizeof word);
  }
  bool has(size_t at) const {
    const uint64_t word = word_at(at);
    return memcmp(bytes_ + at, &word, sizeof word) == 0;
  }
  void put_last() { put(size_ - sizeof(uint64_t)); }
  void touch(size_t from) {
    if (from < size_) memset(bytes_ + from, static_cast<int>(seed_), size_ - from);
    for (size_t at = from; at + sizeof(uint64_t) <= size_; at += probe::kPage) put(at);
    put_last();
  }
  void is_whole(size_t size) const {
    if (size >= probe::kPage && !has(0))
      verdict.broken("a block of %zu lost its first bytes", size);
    if (!has(size - sizeof(uint64_t))) verdict.broken("a block of %zu lost its last bytes", size);
  }

  char* bytes_ = nullptr;
  size_t size_ = 0;
  uint64_t seed_ = 0;
};

size_t mappings() {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) probe::skip("/proc/self/maps cannot be read");
  static char text[1 << 16];
  size_t lines = 0;
  for (ssize_t got = 0; (got = read(file, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) lines += text[i] == '\n';
  }
  close(file);
  return lines;
}

uint64_t max_map_count() {
  uint64_t most = 0;
  FILE* const file = fopen("/proc/sys/vm/max_map_count", "re");
  if (file == nullptr || fscanf(file, "%lu", &most) != 1) probe::skip("max_map_count is hidden");
  fclose(file);
  return most;
}

struct Most {
  size_t mappings = 0;
  uint64_t page_tables = 0;  // bytes
  uint64_t regions = 0;
  double resident = 0;      // of what was live at once
  uint64_t operations = 0;  // done by then
  rdm_stats books{};        // then
};

void look(uint64_t operations, uint64_t resident_before, uint64_t mappings_allowed, Most* most) {
  const size_t has = mappings();
  const uint64_t page_tables = probe::kib_field("/proc/self/status", "VmPTE:");
  const uint64_t regions = probe::stats().regions;
  const uint64_t resident = probe::resident_bytes() - resident_before;
  const double share = static_cast<double>(resident) / static_cast<double>(most_live.load());
  if (has > most->mappings) most->mappings = has;
  if (page_tables > most->page_tables) most->page_tables = page_tables;
  if (regions > most->regions) most->regions = regions;
  if (share > most->resident) {
    most->resident = share;
    most->operations = operations;
    most->books = probe::stats();
  }
  if (has > mappings_allowed) verdict.broken("%zu mappings", has);
  if (page_tables > kMostPageTables) verdict.broken("%lu KiB of page tables", page_tables >> 10);
  if (regions > kMostRegions) verdict.broken("%lu regions", regions);
}

void churn(unsigned number, uint64_t operations, std::atomic<uint64_t>* done) {
  probe::Random random(number + 1);
  std::vector<Block> blocks(kSlots);
  size_t bytes = 0;
  const uint64_t of_phase = operations / kPhasesAtLeast < kOperationsOfPhase
                                ? operations / kPhasesAtLeast + 1
                                : kOperationsOfPhase;
  for (uint64_t i = 0; i < operations; ++i) {
    const Sizes& phase = kPhases[i / of_phase % std::size(kPhases)];
    const size_t size = random.size_between(phase.least, phase.most);
    Block& block = blocks[random.below(kSlots)];
    bytes -= block.size();
    if (block.size() != 0 && random.below(8) == 0 && bytes + size <= kLiveOfThread) {
      if (!block.resize(size)) return verdict.broken("realloc to %zu failed", size);
      bytes += size;
    } else {
      block.empty();
      for (size_t victim = random.below(kSlots); bytes + size > kLiveOfThread; ++victim) {
        bytes -= blocks[victim % kSlots].size();
        blocks[victim % kSlots].empty();
      }
      if (!block.fill(size, random.next())) return verdict.broken("malloc of %zu failed", size);
      bytes += size;
    }
    if (i % 1024 == 0) done->fetch_add(1024);
  }
  for (Block& block : blocks) block.empty();
}

}  // namespace

int main(int argc, char** argv) {
  const auto count = static_cast<unsigned>(probe::argument(argc, argv, 1, 2));
  const uint64_t operations = probe::argument(argc, argv, 2, 1'000'000);
  const auto percent = static_cast<double>(probe::argument(argc, argv, 3, 160));
  const uint64_t mappings_allowed = max_map_count() / 8;
  const uint64_t resident_before = probe::resident_bytes();
  std::atomic<uint64_t> done{0};
  std::atomic<unsigned> running{count};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      churn(i, operations / count, &done);
      --running;
    });
  }
  Most most;
  for (uint64_t next = kBetweenLooks; running != 0;) {
    usleep(1000);
    if (done < next) continue;
    look(done, resident_before, mappings_allowed, &most);
    next = done + kBetweenLooks;
  }
  for (std::thread& thread : threads) thread.join();
  printf("%lu operations, %lu MiB live at most: %zu mappings, %lu regions, %.2f of it resident\n",
         operations, most_live.load() >> 20, most.mappings, most.regions, most.resident);
  printf("  page tables of %lu KiB at most\n", most.page_tables >> 10);
  printf("  after %lu: %lu MiB live, %lu held, %lu in caches, metadata %lu\n", most.operations,
         most.books.live_bytes >> 20, most.books.held_bytes >> 20, most.books.cached_bytes >> 20,
         most.books.metadata_bytes >> 20);
  if (100 * most.resident > percent) verdict.broken("%.2f of what was live", most.resident);
  return verdict.status();
}
