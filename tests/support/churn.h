// Threads that allocate extents of a heap at random, mark every page, check that the marks survive,
// and release the extents, whole or in two parts.
#pragma once

#include <string.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "allocator/pages/heap.h"
#include "tests/support/catch.h"

namespace rdmalloc::fake {

class Churner {
 public:
  Churner(Heap& tested, uint32_t id) : heap_(tested), id_(id), random_(id) {}

  // False when memory was not as expected.
  bool step() {
    if (live_.size() > 60 || (!live_.empty() && below(5) < 2)) return release_one();
    const size_t pages = 1 + below(below(16) == 0 ? 600 : 24);
    const size_t alignment = below(10) == 0 ? os::page_size() << below(10) : os::page_size();
    const bool wants_zero = below(3) == 0;
    bool zero = wants_zero;
    void* got = heap_.extents().allocate(nullptr, pages * os::page_size(), alignment, &zero);
    if (got == nullptr) return live_.empty() || release_one();
    if (wants_zero && !zero) return false;
    const Extent extent{static_cast<unsigned char*>(got), pages};
    live_.push_back(extent);
    return reinterpret_cast<uintptr_t>(got) % alignment == 0 && mark(extent, zero);
  }

  bool finish() {
    bool good = true;
    while (!live_.empty()) good = release_one() && good;
    return good;
  }

 private:
  struct Extent {
    unsigned char* base;
    size_t pages;
  };
  struct Mark {
    uint32_t owner;
    uint32_t page;
    uint64_t check;
  };

  size_t below(size_t bound) { return random_() % bound; }

  Mark mark_of(size_t page) const {
    return {id_, static_cast<uint32_t>(page), id_ * 0x9e3779b97f4a7c15U + page};
  }

  bool mark(const Extent& extent, bool zero) const {
    static constexpr Mark kNone{};
    for (size_t page = 0; page < extent.pages; ++page) {
      unsigned char* place = extent.base + page * os::page_size() + 128;
      if (zero && memcmp(place, &kNone, sizeof kNone) != 0) return false;
      const Mark mine = mark_of(page);
      memcpy(place, &mine, sizeof mine);
    }
    return true;
  }

  bool is_marked(const Extent& extent) const {
    for (size_t page = 0; page < extent.pages; ++page) {
      const Mark mine = mark_of(page);
      if (memcmp(extent.base + page * os::page_size() + 128, &mine, sizeof mine) != 0) return false;
    }
    return true;
  }

  bool release_one() {
    std::swap(live_[below(live_.size())], live_.back());
    const Extent extent = live_.back();
    if (!is_marked(extent)) return false;
    live_.pop_back();
    const size_t first = below(4) == 0 ? extent.pages / 2 : 0;
    const bool head = first == 0 || give({extent.base, first});
    return give({extent.base + first * os::page_size(), extent.pages - first}) && head;
  }

  // Refused only for lack of a record; the caller then tries again.
  bool give(const Extent& extent) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      if (heap_.extents().release(extent.base, extent.pages * os::page_size())) return true;
    }
    return false;
  }

  Heap& heap_;
  const uint32_t id_;
  std::mt19937 random_;
  std::vector<Extent> live_;
};

// Runs that many threads for that long; meanwhile the calling thread calls check().
template <typename Check>
void churn(Heap& tested, unsigned threads, std::chrono::milliseconds duration, Check check) {
  std::atomic<bool> stop{false};
  std::atomic<size_t> bad{0};
  std::atomic<size_t> steps{0};
  std::vector<std::thread> all;
  for (unsigned id = 1; id <= threads; ++id) {
    all.emplace_back([&, id] {
      Churner churner(tested, id);
      bool good = true;
      for (; good && !stop; ++steps) good = churner.step();
      if (!churner.finish() || !good) ++bad;
    });
  }
  const auto end = std::chrono::steady_clock::now() + duration;
  bool sound = true;
  while (sound && std::chrono::steady_clock::now() < end) {
    sound = check();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stop = true;
  for (std::thread& thread : all) thread.join();
  CHECK(sound);
  CHECK(bad == 0);
  CHECK(steps > 100);
}

}  // namespace rdmalloc::fake
