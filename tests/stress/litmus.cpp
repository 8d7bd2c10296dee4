// Litmus tests for data read without a lock: two or three threads repeatedly run the few loads and
// stores that the library relies on, with the library's own types. Reorderings by the processor
// show up on weakly ordered machines (AArch64); under an emulator on x86-64 the tests find
// reorderings by the compiler.
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "allocator/os/process_barrier.h"
#include "regcache/domain/early_parts.h"
#include "regcache/domain/key_entry.h"
#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/page_memo.h"
#include "regcache/foreign/references.h"
#include "regcache/pool/stock.h"
#include "tests/support/catch.h"

namespace rdmalloc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLong{400};
constexpr size_t kMiB = size_t{1} << 20;

// Derives all written fields from a number, so that a reader can check that they belong together.
uint64_t mixed(uint64_t number) { return number * 0x9e3779b97f4a7c15u ^ number >> 7; }
rdm_backend_key key_of(uint64_t number) {
  const uint64_t word = mixed(number);
  return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32),
          reinterpret_cast<void*>(word ^ number)};
}
bool is_key_of(const rdm_backend_key& key, uint64_t number) {
  const rdm_backend_key right = key_of(number);
  return key.lkey == right.lkey && key.rkey == right.rkey && key.handle == right.handle;
}

// Makes two threads begin a round at the same moment, so that their next steps race.
class Meeting {
 public:
  void meet(unsigned round) {
    here_.fetch_add(1, std::memory_order_acq_rel);
    while (here_.load(std::memory_order_acquire) < 2 * round) std::this_thread::yield();
  }

 private:
  std::atomic<unsigned> here_{0};
};

}  // namespace

TEST_CASE("a reader that finds a registration's length finds its base and its keys") {
  constexpr size_t kEntries = 1 << 14;
  const auto entries = std::make_unique<KeyEntry[]>(kEntries);
  std::atomic<size_t> wrong{0};
  std::atomic<bool> is_over{false};
  const auto read = [&](size_t first) {
    for (size_t i = first; !is_over.load(std::memory_order_relaxed); i = (i + 7) % kEntries) {
      const KeyEntry& entry = entries[i];
      const size_t length = entry.length.load(std::memory_order_acquire);
      if (length == 0) continue;
      const uintptr_t base = entry.base.load(std::memory_order_relaxed);
      if (length != i + 1 || base != mixed(i) || !is_key_of(entry.key(), i)) ++wrong;
    }
  };
  std::vector<std::thread> readers;
  for (size_t i = 0; i < 2; ++i) readers.emplace_back(read, i);
  for (const auto until = Clock::now() + kLong; Clock::now() < until;) {
    for (size_t i = 0; i < kEntries; ++i) entries[i].publish(mixed(i), i + 1, key_of(i));
    for (size_t i = 0; i < kEntries; ++i) {
      entries[i].length.store(0, std::memory_order_relaxed);
    }
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("a part that was registered ahead is read whole, or not at all") {
  EarlyParts parts;
  std::atomic<size_t> wrong{0};
  std::atomic<size_t> found{0};
  std::atomic<bool> is_over{false};
  const auto read = [&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      EarlyParts::Part part;
      // Every number's part covers this address.
      if (!parts.find(64 * kMiB, 1, &part)) continue;
      ++found;
      const uint64_t number = 64 * kMiB - part.base;
      if (part.length != number + kMiB || !is_key_of(part.key, number)) ++wrong;
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);
  uint64_t number = 0;
  for (const auto until = Clock::now() + kLong; Clock::now() < until;) {
    number = number % (60 * kMiB) + 1;
    CHECK(parts.add(1, {64 * kMiB - number, number + kMiB, key_of(number)}));
    if (number % 16 == 0) std::this_thread::yield();
    EarlyParts::Part taken;
    CHECK(parts.take_of(1, &taken));
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
  CHECK(parts.count() == 0);
}

TEST_CASE("a guess leads to an entry that has a reference, or is seen to be another's") {
  // In the order of ForeignCache: one side dooms, then looks; the other references, then looks.
  constexpr size_t kEntries = 8;
  struct Entry {
    std::atomic<bool> is_live{false};
    std::atomic<uintptr_t> base{0};
    std::atomic<uint64_t> key{0};
  };
  const auto entries = std::make_unique<Entry[]>(kEntries);
  References references;
  std::vector<char> memory(References::bytes());
  references.open(memory.data());
  PageMemo memo;
  REQUIRE(memo.open());
  const auto base_of = [](size_t entry, uint64_t turn) {
    return (uintptr_t{0x1000} + entry + kEntries * (turn % 3)) << 16;
  };
  std::atomic<size_t> wrong{0};
  std::atomic<bool> is_over{false};
  const auto read = [&] {
    const uint32_t place = references.enter();
    for (size_t i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
      const uint32_t index = memo.find(base_of(i % kEntries, i / kEntries));
      if (index >= kEntries) continue;
      Entry& entry = entries[index];
      references.take(place, index);
      if (entry.is_live.load(std::memory_order_seq_cst)) {
        const uintptr_t base = entry.base.load(std::memory_order_relaxed);
        const uint64_t key = entry.key.load(std::memory_order_relaxed);
        if (key != mixed(base) || entry.base.load(std::memory_order_relaxed) != base) ++wrong;
      }
      (void)references.give(place, index);
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);
  uint64_t turn = 0;
  for (const auto until = Clock::now() + kLong; Clock::now() < until; ++turn) {
    for (uint32_t i = 0; i < kEntries; ++i) {
      Entry& entry = entries[i];
      entry.is_live.store(false, std::memory_order_seq_cst);
      if (references.out(i) > 0) {
        entry.is_live.store(turn != 0, std::memory_order_seq_cst);
        continue;
      }
      const uintptr_t base = base_of(i, turn);
      entry.base.store(base, std::memory_order_relaxed);
      entry.key.store(mixed(base), std::memory_order_relaxed);
      entry.is_live.store(true, std::memory_order_seq_cst);
      memo.note(base, i);
    }
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == 0);
}

TEST_CASE("no thread is in a revoked stock, with barriers of the owner's or of the process") {
  const bool is_fenced = GENERATE(true, false);
  if (!is_fenced && !os::enable_process_barrier()) {
    WARN("SKIPPED: the kernel has no barrier of a whole process (membarrier)");
    return;
  }
  Stock stock;
  stock.capacity = Stock::kMost;
  uint64_t inside = 0;  // written without atomics by whoever holds entry
  std::atomic<uint64_t> entered{0};
  std::atomic<bool> is_over{false};
  std::thread owner([&] {
    for (uint32_t i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
      if (!stock.enter(is_fenced)) continue;
      ++inside;
      if (!stock.push({i, i})) (void)stock.remove_oldest(stock.items, Stock::kMost);
      entered.store(entered.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      stock.leave();
    }
  });
  uint64_t reached_in = 0;
  for (const auto until = Clock::now() + kLong; Clock::now() < until;) {
    stock.revoked.store(1, std::memory_order_seq_cst);
    REQUIRE((is_fenced || os::process_barrier()));
    while (stock.busy.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
    ++inside;
    ++reached_in;
    PoolItem item;
    while (stock.pop(&item)) CHECK(item.chunk() == item.index());
    stock.revoked.store(0, std::memory_order_release);
  }
  is_over = true;
  owner.join();
  CHECK(inside == entered + reached_in);
}

TEST_CASE("of a thread that registers memory and one that changes it, one sees the other") {
  struct Sink final : ChangeSink {
    void on_change(uintptr_t, uintptr_t) noexcept override { ++told; }
    bool is_cached(uintptr_t, uintptr_t) noexcept override { return true; }
    size_t told = 0;  // used only by the thread that changes
  };
  static Sink sink;
  changes.attach(&sink);
  constexpr unsigned kRounds = 20'000;
  constexpr uintptr_t kBase = uintptr_t{1} << 40;
  constexpr uintptr_t kEnd = kBase + (size_t{1} << 16);
  std::vector<uint8_t> is_seen(kRounds + 1);  // by the registering thread
  std::vector<uint8_t> is_told(kRounds + 1);
  Meeting start;
  Meeting end;
  const auto until = Clock::now() + 5 * kLong;
  std::atomic<unsigned> last{kRounds};
  std::thread changer([&] {
    for (unsigned round = 1; round <= last.load(std::memory_order_relaxed); ++round) {
      start.meet(round);
      const size_t before = sink.told;
      {
        const Change change(reinterpret_cast<void*>(kBase), kEnd - kBase);
        is_told[round] = sink.told != before;
        end.meet(round);
      }
    }
  });
  for (unsigned round = 1; round <= last.load(std::memory_order_relaxed); ++round) {
    // Set before the other thread can have passed this round.
    if (Clock::now() > until) last = round;
    start.meet(round);
    changes.counts().count_in(kBase, kEnd);
    is_seen[round] = changes.announcements().has_any_of(kBase, kEnd);
    end.meet(round);
    changes.counts().count_out(kBase, kEnd);
  }
  changer.join();
  size_t unseen = 0;
  for (unsigned round = 1; round <= last; ++round) unseen += !is_seen[round] && !is_told[round];
  CHECK(unseen == 0);
}

}  // namespace rdmalloc
