// The memory of one thread of foreign_churn, and the changes to it. Each change reports what the
// memory holds afterwards; the kernel hands freed addresses to other threads.
#pragma once

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/foreign/monitor/memory_calls.h"

namespace probe {

enum class Backing { kPrivate, kShared, kPrivateFile, kSharedFile, kMixed };

struct Range {
  char* base = nullptr;
  size_t length = 0;
  Backing backing = Backing::kPrivate;
  const char* last_change = "nothing";
  bool whole = true;  // one mapping, as far as the program knows
  char* end() const { return base + length; }
};

// A change that was made: its name, and the part of the range whose bytes are now known.
struct Changed {
  const char* name;
  char* base = nullptr;
  size_t length = 0;
  Content content = Content::zero();
};

class Ranges {
 public:
  static constexpr size_t kPages = 32;  // of the longest range

  Ranges(const MemoryCalls& calls, Random& random) : calls_(calls), random_(random) {
    file_ = memfd_create("zeroes", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, kPages * kPage) != 0) skip("no file in memory");
  }
  ~Ranges() { close(file_); }
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  // A new mapping, wherever the kernel places it.
  Changed map(Range& range) {
    static constexpr Backing kBackings[] = {Backing::kPrivate, Backing::kPrivate, Backing::kShared,
                                            Backing::kPrivateFile, Backing::kSharedFile};
    range.backing = kBackings[random_.below(5)];
    range.length = (1 + random_.below(kPages)) * kPage;
    int file = -1;
    int flags = range.backing == Backing::kPrivate || range.backing == Backing::kPrivateFile
                    ? MAP_PRIVATE
                    : MAP_SHARED;
    if (range.backing == Backing::kPrivateFile) {
      file = file_;
    } else if (range.backing == Backing::kSharedFile) {
      file = memfd_create("shared", MFD_CLOEXEC);
      if (ftruncate(file, static_cast<off_t>(range.length)) != 0) skip("no file in memory");
    } else {
      flags |= MAP_ANONYMOUS;
    }
    void* got = calls_.map(nullptr, range.length, flags, file);
    if (range.backing == Backing::kSharedFile) close(file);
    if (got == MAP_FAILED) skip("out of memory");
    range.base = static_cast<char*>(got);
    range.whole = true;
    return {"mapping", range.base, range.length};
  }

  Changed unmap(Range& range) {
    calls_.unmap(range.base, range.length);
    range = {};
    return {"unmapping"};
  }

  Changed renew(Range& range) {
    unmap(range);
    Changed changed = map(range);
    changed.name = "unmapping and mapping";
    return changed;
  }

  // Replaces part of it by new pages.
  Changed replace(Range& range) {
    const auto [at, length] = part(range);
    void* got = calls_.map(at, length, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
    if (got != at) skip("out of memory");
    range.whole = false;
    if (range.backing != Backing::kPrivate) range.backing = Backing::kMixed;
    return {"mapping over a part", at, length};
  }

  Changed trim(Range& range) {
    if (range.length < 2 * kPage) return renew(range);
    const size_t cut = (1 + random_.below(range.length / kPage - 1)) * kPage;
    const bool head = random_.below(2) == 0;
    calls_.unmap(head ? range.base : range.end() - cut, cut);
    if (head) range.base += cut;
    range.length -= cut;
    return {head ? "unmapping the head" : "unmapping the tail"};
  }

  Changed drop(Range& range) {
    const auto [at, length] = part(range);
    if (range.backing == Backing::kPrivate || range.backing == Backing::kPrivateFile) {
      // Where the monitor does not see the call, Linux 6.1 may drop only the first of several
      // pages: see regcache/foreign/monitor/interposed_calls.cpp.
      const size_t step = calls_.are_ends_raw() ? kPage : length;
      for (size_t done = 0; done < length; done += step) {
        calls_.advise(at + done, step, MADV_DONTNEED);
      }
      return {"MADV_DONTNEED", at, length};
    }
    if (range.backing == Backing::kMixed) {
      calls_.advise(at, length, MADV_DONTNEED);
      return {"MADV_DONTNEED of private and shared memory"};
    }
    if (calls_.advise(at, length, MADV_REMOVE) != 0) skip("no MADV_REMOVE of memory files here");
    return {"MADV_REMOVE", at, length};
  }

  // Moves it with its contents; grows or shrinks it if possible.
  Changed move(Range& range, uint64_t seed) {
    if (range.backing != Backing::kPrivate) return move_away(range, seed);
    const Content content(seed);
    const size_t length = (1 + random_.below(kPages)) * kPage;
    const size_t kept = length < range.length ? length : range.length;
    content.fill(range.base, kept);
    void* got = calls_.remap(range.base, range.length, length, MREMAP_MAYMOVE);
    if (got == MAP_FAILED) return refused(range, "mremap to another size");
    range.base = static_cast<char*>(got);
    range.length = length;
    return {"mremap to another size", range.base, kept, content};
  }

  Changed move_away(Range& range, uint64_t seed) {
    const Content content(seed);
    content.fill(range.base, range.length);
    const size_t content_length = range.length;
    void* place = calls_.map(nullptr, content_length, MAP_PRIVATE | MAP_ANONYMOUS);
    void* got =
        calls_.remap(range.base, range.length, range.length, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (got == MAP_FAILED) {
      // Before Linux 6.17 the place is unmapped by then, and may be another thread's.
      const bool is_ours = errno != EFAULT;
      const Changed changed = refused(range, "mremap to another place");
      if (is_ours) calls_.unmap(place, content_length);
      return changed;
    }
    range.base = static_cast<char*>(got);
    return {"mremap to another place", range.base, range.length, content};
  }

  // Moves its pages elsewhere; its addresses stay, empty.
  Changed empty(Range& range) {
    constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP, Linux 5.7
    void* got =
        range.backing != Backing::kPrivate
            ? MAP_FAILED
            : calls_.remap(range.base, range.length, range.length, MREMAP_MAYMOVE | kDontUnmap);
    if (got == MAP_FAILED) {
      return range.backing == Backing::kPrivate ? refused(range, "MREMAP_DONTUNMAP") : drop(range);
    }
    calls_.unmap(got, range.length);
    return {"MREMAP_DONTUNMAP", range.base, range.length};
  }

  // Calls that the kernel refused through no fault of the program.
  uint64_t refusals() const { return refusals_; }
  const char* last_refusal() const { return last_refusal_; }
  int last_error() const { return last_error_; }

 private:
  // Replacing a part splits a mapping; several mappings cannot be moved or grown.
  Changed refused(Range& range, const char* name) {
    if (range.whole) {
      ++refusals_;
      last_refusal_ = name;
      last_error_ = errno;
    }
    return renew(range);
  }

  struct Part {
    char* at;
    size_t length;
  };
  Part part(const Range& range) {
    const size_t pages = range.length / kPage;
    const size_t first = random_.below(pages);
    return {range.base + first * kPage, (1 + random_.below(pages - first)) * kPage};
  }

  const MemoryCalls& calls_;
  Random& random_;
  int file_;
  uint64_t refusals_ = 0;
  const char* last_refusal_ = "";
  int last_error_ = 0;
};

}  // namespace probe
