// Objects of 4 to 256 KiB that this thread freed a short while ago, jemalloc's as well as blocks
// of the page heap. Behind it such a size is served in one of several ways, and no processor can
// predict in which: that took up to four times as long as serving all of them in one
// (bench/README.md).
//
// A class keeps one object at first, and more where frees that found it full were followed by
// mallocs that found it empty, as long as the thread mallocs such sizes every few microseconds: one
// that takes longer uses them, and gains more from memory that is still in the processor's own
// cache. Of big objects, above 64 KiB, only such a thread keeps any, and only while most of its
// mallocs of them find one. What it mallocs then is rounded up to its class, by an eighth at most;
// other blocks are exact to the page.
//
// Both kinds are bounded by shares of what the heap holds, divided by the threads. All goes back
// before the heap grows for this thread, with jemalloc's cache of the thread, and when the thread
// ends. The rest of the malloc family makes the table forget an object before it may change its
// size.
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
#include <span>

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
  uintptr_t slots = 0;  // where the front table would have the slot of address zero
};
[[gnu::visibility("hidden")]] extern constinit Borders borders;

// Once, when the heap has reserved its window.
void take_borders(Heap& from);

class FrontCache {
 public:
  using Entry = FrontTable::Entry;

  static constexpr size_t kBelow = 4096;
  static constexpr size_t kLargestUsual = size_t{64} << 10;  // above: big objects
  static constexpr size_t kLargest = size_t{256} << 10;
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
    room_ += bin.big;
    entry_of(object).store(number + 1, std::memory_order_relaxed);
    return object;
  }

  // An object of which the caches know that, by its entry. False: give_slowly() must do it.
  [[gnu::always_inline]] bool give(void* object, Entry known, std::atomic<Entry>& entry) {
    const Entry number = known - 1;
    if (number >= kClasses || !is_aligned(object)) [[unlikely]]
      return false;
    Bin& bin = bins_[number];
    if (bin.count >= bin.most || bin.big > room_) [[unlikely]]
      return false;
    room_ -= bin.big;
    bin.objects[bin.count++] = object;
    entry.store(known | FrontTable::kCached, std::memory_order_relaxed);
    return true;
  }

  // Of an object in the window, once its heap has been reserved.
  [[gnu::always_inline]] static std::atomic<Entry>& entry_of(const void* object) {
    const uintptr_t unit = reinterpret_cast<uintptr_t>(object) >> FrontTable::kUnitShift;
    return reinterpret_cast<FrontTable::Slot*>(borders.slots + unit * sizeof(FrontTable::Slot))
        ->entry;
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
  // Whether a malloc of that size need not ask it, because it keeps no big objects for now.
  [[gnu::always_inline]] bool passes(size_t size) {
    if (size <= kLargestUsual || to_pass_ == 0) return false;
    --to_pass_;
    return true;
  }
  [[gnu::noinline]] static void give_slowly(void* object, Entry known);

  // Gives all that this thread keeps back to where it came from.
  static void empty();
  // Adds what was malloc'ed and freed here of jemalloc's objects to its figures for the thread
  // (thread.allocated, thread.deallocated).
  static void add_to_figures();
  // The thread is about to end: it keeps nothing any more.
  static void end();

 private:
  static constexpr uint32_t kKiB = 1024;
  static constexpr unsigned kClasses = 36;
  static constexpr unsigned kOfJemalloc = 12;  // classes
  static constexpr unsigned kFirstBig = 20;
  static constexpr unsigned kMost = 14;

  // Of 128 bytes. Whole words at the front: narrower ones took the processor half as long again.
  struct Bin {
    uint32_t count = 0;
    uint32_t most = 0;
    uint32_t taken = 0;  // ever
    uint32_t big = 0;    // bytes of a big object, 0 for others
    void* objects[kMost] = {};
  };
  // What add_to_figures() has seen of one of jemalloc's.
  struct Seen {
    uint32_t count = 0;
    uint32_t taken = 0;
  };

  // jemalloc's classes up to 32 KiB, a quarter of a doubling wide; above them an eighth.
  static constexpr uint32_t size_of(unsigned number) {
    if (number < kOfJemalloc) {
      return (4 * kKiB << number / 4) + (number % 4 + 1) * (kKiB << number / 4);
    }
    const unsigned doubling = (number - kOfJemalloc) / 8;
    return (32 * kKiB << doubling) + ((number - kOfJemalloc) % 8 + 1) * (4 * kKiB << doubling);
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
  static void start();
  static bool is_kept();
  static void give_back(void* object);
  std::span<Bin> big_bins() { return std::span(bins_).subspan(kFirstBig); }
  bool is_fast();
  void note_miss(unsigned number);
  void widen(Bin& bin);
  void narrow(Bin& bin);
  void cut(Bin& bin, unsigned count);
  void limit(Bin& bin, unsigned most);
  size_t bytes(unsigned first, unsigned last) const;
  void set_room();
  void make_room();
  void keep_least();
  void try_big();
  void judge_big();
  void keep_no_big(uint32_t mallocs);
  void pass(uint32_t mallocs);

  Bin bins_[kClasses];
  size_t room_ = 0;  // bytes of big objects that may be kept in addition
  bool was_full_[kClasses] = {};
  uint32_t fills_ = 0;
  uint32_t refused_ = 0;  // big objects for which there was no room
  unsigned next_to_cut_ = 0;

  // Mallocs of big objects.
  bool keeps_big_ = false;
  bool is_judging_ = false;
  uint32_t to_pass_ = 0;
  uint32_t pass_next_ = 0;
  uint32_t big_misses_ = 0;
  uint32_t big_taken_ = 0;

  // The thread's pace, and where it was at the last look at it.
  bool is_fast_ = false;
  uint32_t mallocs_then_ = 0;
  uint64_t computed_ns_ = 0;

  Seen seen_[kOfJemalloc];
};

inline constexpr FrontCache::Classes FrontCache::kClassOf = FrontCache::make_classes();

// This thread's. One that has none takes one of those that keep nothing. A pointer, because a
// thread's stack, which may be small, has to hold what is thread_local.
[[gnu::visibility("hidden")]] extern thread_local constinit FrontCache* front
    [[gnu::tls_model("initial-exec")]];

}  // namespace rdmalloc::engine
