// Objects of 4 to 64 KiB that this thread freed a short while ago, jemalloc's as well as blocks of
// the page heap. Behind it such a size is served in one of three ways, and no processor can predict
// in which: that took four times as long as serving all of them in one (bench/README.md).
//
// A class keeps one object at first, and more where frees that found it full were followed by
// mallocs that found it empty, as long as the thread mallocs such sizes every few microseconds: one
// that takes longer uses them, and gains more from memory that is still in the processor's own
// cache. They go back before the heap grows for this thread, with jemalloc's cache of the thread,
// and when the thread ends. The rest of the malloc family makes the table forget an object before
// it may change its size.
//
// On once a process has malloc'ed many objects of these sizes: a program of small objects need not
// look into the table when it frees them. Never where jemalloc is asked for what a cache would hide
// (profiles, filled or traced memory, no caches), nor from the program's first hole in the heap on
// (ProgramHoles).
//
// Runs inside malloc, under no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/front_table.h"
#include "allocator/pages/heap.h"

namespace rdmalloc::engine {

// What free() reads: distances from the window's base. Plain words, because GCC does not fold a
// read of std::atomic into a comparison. Written under the growth lock; a word is read in one
// piece.
struct Borders {
  uintptr_t base = 0;
  size_t small = 0;     // below it: jemalloc's objects, of which no front cache knows
  size_t front = 0;     // below it the front table tells
  size_t ordinary = 0;  // below it: jemalloc's objects
  std::atomic<FrontTable::Entry>* entries = nullptr;
};
[[gnu::visibility("hidden")]] extern constinit Borders borders;

// Once, when the heap has reserved its window.
void take_borders(Heap& from);

class FrontCache {
 public:
  using Entry = FrontTable::Entry;

  static constexpr size_t kBelow = 4096;
  static constexpr size_t kLargest = size_t{64} << 10;
  // As everything lies that malloc returns of these sizes.
  static constexpr size_t kAlignment = 1024;
  static bool has(size_t size) { return size - kBelow - 1 < kLargest - kBelow; }
  static bool has(size_t size, size_t alignment) { return has(size) && alignment <= kAlignment; }

  constexpr FrontCache() = default;
  FrontCache(const FrontCache&) = delete;
  FrontCache& operator=(const FrontCache&) = delete;

  // For a size that it has. Null: none is there.
  [[gnu::always_inline]] void* take(size_t size) {
    const unsigned number = class_of(size);
    Bin& bin = bins_[number];
    if (bin.count == 0) [[unlikely]]
      return nullptr;
    void* const object = bin.objects[--bin.count];
    ++bin.taken;
    entry_of(object).store(number + 1, std::memory_order_relaxed);
    return object;
  }

  // An object of which the caches know. False: give_slowly() must do it.
  [[gnu::always_inline]] bool give(void* object, Entry known) {
    const Entry number = known - 1;
    if (number >= kClasses || !is_aligned(object)) [[unlikely]]
      return false;
    Bin& bin = bins_[number];
    if (bin.count >= bin.most) [[unlikely]]
      return false;
    bin.objects[bin.count++] = object;
    entry_of(object).store(known | FrontTable::kCached, std::memory_order_relaxed);
    return true;
  }

  // What the caches know of an object; 0: nothing.
  [[gnu::always_inline]] static Entry known_of(const void* object) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(object) - borders.base;
    return offset < borders.front ? entry_of(object).load(std::memory_order_relaxed) : 0;
  }
  // It was freed, and is in a cache.
  static bool is_cached(const void* object) {
    return (known_of(object) & FrontTable::kCached) != 0;
  }
  // `call` is about to change an object, or to free it in another way. Ends the program if it was
  // freed before.
  static void forget(const char* call, const void* object);

  // For this thread, where take() and give() could not. The first leaves errno to jemalloc and to
  // the caller; the second ends the program if the object was freed before.
  static void* fill(size_t size);
  [[gnu::noinline]] static void give_slowly(void* object, Entry known);

  // Gives all that this thread keeps back to where it came from.
  static void empty();
  // Adds what was malloc'ed and freed here of jemalloc's objects to its figures for the thread
  // (thread.allocated, thread.deallocated).
  static void add_to_figures();
  // The thread is about to end: it keeps nothing any more.
  static void end();

 private:
  static constexpr size_t kKiB = 1024;
  static constexpr unsigned kClasses = 20;
  static constexpr unsigned kFirst = 1;
  static constexpr unsigned kMost = 14;

  // Of 128 bytes. Whole words at the front: narrower ones took the processor half as long again.
  struct Bin {
    uint32_t count = 0;
    uint32_t most = 0;
    uint32_t taken = 0;  // ever
    uint32_t was_full = 0;
    void* objects[kMost] = {};
  };
  // What add_to_figures() has seen of one.
  struct Seen {
    uint32_t count = 0;
    uint32_t taken = 0;
  };

  // jemalloc's classes up to 32 KiB, a quarter of a doubling wide; above them units of 4 KiB.
  static constexpr size_t size_of(unsigned number) {
    constexpr unsigned kOfJemalloc = 12;
    if (number >= kOfJemalloc)
      return LargeBlocks::kLargestSmall + 4 * kKiB * (number - kOfJemalloc + 1);
    return (4 * kKiB << number / 4) + (number % 4 + 1) * (kKiB << number / 4);
  }
  // By the KiB: a branch between the two kinds could not be predicted.
  struct Classes {
    uint8_t of[kLargest / kKiB];
  };
  static constexpr Classes make_classes() {
    Classes made{};
    for (size_t kib = 0; kib < kLargest / kKiB; ++kib) {
      while (size_of(made.of[kib]) < (kib + 1) * kKiB) ++made.of[kib];
    }
    return made;
  }
  static const Classes kClassOf;
  static unsigned class_of(size_t size) { return kClassOf.of[(size - 1) / kKiB]; }

  static bool is_aligned(const void* object) {
    return (reinterpret_cast<uintptr_t>(object) & (kAlignment - 1)) == 0;
  }
  static std::atomic<Entry>& entry_of(const void* object) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(object) - borders.base;
    return borders.entries[offset >> FrontTable::kUnitShift];
  }
  static void start();
  static void cut(Bin& bin, unsigned count);
  void cut_all(unsigned most);
  void grow(Bin& bin);
  void shrink(Bin& bin);
  bool is_fast();
  static void give_back(void* object);
  size_t bytes() const;

  Bin bins_[kClasses];
  Seen seen_[kClasses];
  // Where the thread was at the last look at its pace, and how often not to look again.
  uint64_t computed_ns_ = 0;
  uint32_t mallocs_then_ = 0;
  uint32_t to_pass_ = 0;
  uint32_t fills_ = 0;
};

inline constexpr FrontCache::Classes FrontCache::kClassOf = FrontCache::make_classes();

// This thread's. One that has none takes one of those that keep nothing. A pointer, because a
// thread's stack, which may be small, has to hold what is thread_local.
[[gnu::visibility("hidden")]] extern thread_local constinit FrontCache* front
    [[gnu::tls_model("initial-exec")]];

}  // namespace rdmalloc::engine
