// A thread's buffers, malloc'd and mapped, with a naive record of each page: its contents, and
// whether it is still malloc's. The buffers are changed in every way a program can, and checked
// through the device: it must have the current pages, and every byte of them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "tests/integration/regcache/foreign/monitor/memory_calls.h"
#include "tests/integration/regcache/preload/verbs/together.h"

namespace together {

// How often the threads did each thing; and the shared bound on holes, each of which is a kernel
// mapping, a limited resource.
struct Counts {
  std::atomic<uint64_t> looks{0};
  std::atomic<uint64_t> refusals{0};  // excused
  std::atomic<uint64_t> stale{0};
  std::atomic<uint64_t> holes{0};
  std::atomic<uint64_t> guards{0};
  std::atomic<uint64_t> forks{0};
  std::atomic<uint64_t> loads{0};
  std::atomic<uint64_t> opens{0};
};
inline Counts counts;
inline constexpr uint64_t kMostHoles = 6000;

class Buffers {
 public:
  // With `behind`, holes are made by calls that the library cannot see.
  Buffers(uint64_t seed, bool behind, probe::Watchdog::Doing& doing)
      : random_(seed), behind_(behind), doing_(doing) {}
  ~Buffers() {
    for (Buffer& buffer : all_) drop(&buffer);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // One change, and a check of its result through one of these.
  void step(const std::vector<Way*>& ways, Nested* nested) {
    Buffer& buffer = all_[random_.below(kBuffers)];
    if (buffer.at == nullptr) {
      renew(&buffer);
    } else if (random_.below(8) == 0) {
      drop(&buffer);
    } else if (random_.below(8) == 0) {
      resize(&buffer);
    } else {
      change(&buffer);
    }
    if (buffer.at == nullptr) return;
    look(&buffer, ways[random_.below(ways.size())]);
    if (nested != nullptr && nested->is_open()) look_up(buffer, nested);
  }

  // Checks something without changing any contents.
  void use(Way* way) {
    Buffer& buffer = all_[random_.below(kBuffers)];
    if (buffer.at == nullptr) renew(&buffer);
    look(&buffer, way);
  }

  // Whether everything readable has the recorded contents.
  bool are_as_known() const {
    return std::all_of(all_, all_ + kBuffers, [](const Buffer& buffer) {
      for (size_t page = 0; page < buffer.pages.size(); ++page) {
        if (buffer.pages[page].is_readable() && !buffer.is_at(page, buffer.at + page * kPage)) {
          return false;
        }
      }
      return true;
    });
  }

 private:
  static inline const size_t kPage = probe::kPage;
  static constexpr size_t kBuffers = 12;

  enum State : uint8_t {
    kGood,
    kOthers,    // of malloc'd memory: the program has mapped something else there
    kUnmapped,  // ... has unmapped it
    kShut       // is inaccessible now
  };
  struct Page {
    State state = kGood;
    uint64_t content = 0;  // a pattern's seed; 0: zeros
    bool is_readable() const { return state == kGood || state == kOthers; }
  };
  struct Buffer {
    char* at = nullptr;
    bool is_own = false;  // mapped by the program, and not malloc'd
    std::vector<Page> pages;

    size_t bytes() const { return pages.size() * kPage; }
    bool is_at(size_t page, const void* bytes) const {
      const uint64_t content = pages[page].content;
      const probe::Content known = content == 0 ? probe::Content::zero() : probe::Content(content);
      return known.mismatch(bytes, kPage) == kPage;
    }
  };
  // Some of a buffer's pages.
  struct Part {
    size_t page;
    size_t count;
    char* at;
    size_t bytes() const { return count * kPage; }
  };

  static void broken(const char* what, const Part& part) {
    probe::verdict.broken("%s (%zu pages at %p)", what, part.count,
                          static_cast<const void*>(part.at));
  }
  Part some(const Buffer& buffer, size_t most = kMostPages) {
    const size_t page = random_.below(buffer.pages.size());
    const size_t count = 1 + random_.below(std::min(buffer.pages.size() - page, most));
    return {page, count, buffer.at + page * kPage};
  }
  template <typename Check>
  static bool all_of(const Buffer& buffer, const Part& part, Check check) {
    const auto from = buffer.pages.begin() + static_cast<long>(part.page);
    return std::all_of(from, from + static_cast<long>(part.count), check);
  }
  static bool any_is(const Buffer& buffer, const Part& part, State state) {
    return !all_of(buffer, part, [=](const Page& page) { return page.state != state; });
  }

  void fill(Buffer* buffer, size_t page, void* bytes) {
    buffer->pages[page].content = random_.next() | 1;
    probe::Content(buffer->pages[page].content).fill(bytes, kPage);
  }
  void set(Buffer* buffer, const Part& part, Page value) {
    for (size_t i = part.page; i < part.page + part.count; ++i) {
      buffer->pages[i].state = value.state;
      buffer->pages[i].content = value.content;
    }
  }
  void* map(void* at, size_t bytes, int flags) const {
    const probe::MemoryCalls calls(behind_ ? probe::MemoryCalls::kAll : probe::MemoryCalls::kNone);
    return calls.map(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS | flags);
  }

  void renew(Buffer* buffer) {
    static constexpr size_t kPages[] = {1, 2, 4, 9, 16, 60, 150, kMostPages};
    buffer->pages.assign(kPages[random_.below(std::size(kPages))], Page{});
    buffer->is_own = random_.below(4) == 0;
    void* got = nullptr;
    if (buffer->is_own) {
      doing_.say("mmap");
      got = map(nullptr, buffer->bytes(), 0);
    } else {
      doing_.say("malloc");
      if (posix_memalign(&got, kPage, buffer->bytes()) != 0) got = nullptr;
    }
    if (got == MAP_FAILED) probe::skip("out of memory");
    if (got == nullptr) probe::refused("out of memory");
    buffer->at = static_cast<char*>(got);
    for (size_t page = 0; page < buffer->pages.size(); ++page) {
      fill(buffer, page, buffer->at + page * kPage);
    }
  }

  // The program unmaps what it mapped over malloc'd memory, but need not make accessible what it
  // made inaccessible.
  void drop(Buffer* buffer) {
    if (buffer->at == nullptr) return;
    doing_.say("free");
    if (buffer->is_own) {
      munmap(buffer->at, buffer->bytes());
    } else {
      unmap_others(buffer->at, buffer->pages);
      free(buffer->at);
    }
    buffer->at = nullptr;
    buffer->pages.clear();
  }
  static void unmap_others(char* at, const std::vector<Page>& pages) {
    for (size_t page = 0; page < pages.size(); ++page) {
      if (pages[page].state == kOthers) munmap(at + page * kPage, kPage);
    }
  }

  void resize(Buffer* buffer) {
    if (buffer->is_own || any_is(*buffer, {0, buffer->pages.size(), nullptr}, kShut)) return;
    doing_.say("realloc");
    const std::vector<Page> before = buffer->pages;
    char* const old = buffer->at;
    const size_t count = 1 + random_.below(kMostPages);
    auto* const got = static_cast<char*>(realloc(old, count * kPage));
    if (got == nullptr) probe::refused("out of memory");
    // Large blocks are page-aligned; a smaller one is freed here and allocated again.
    if (reinterpret_cast<uintptr_t>(got) % kPage != 0) {
      unmap_others(old, before);
      free(got);
      buffer->at = nullptr;
      buffer->pages.clear();
      return;
    }
    const size_t kept = std::min(count, before.size());
    buffer->at = got;
    buffer->pages.assign(count, Page{});
    if (got != old) unmap_others(old, before);
    if (got == old && count < before.size()) {
      unmap_others(old + count * kPage, {before.begin() + static_cast<long>(count), before.end()});
    }
    for (size_t page = 0; page < count; ++page) {
      char* const at = got + page * kPage;
      if (page < kept && got == old) buffer->pages[page].state = before[page].state;
      const bool is_known = page < kept && before[page].is_readable();
      if (is_known) buffer->pages[page].content = before[page].content;
      if (is_known && !buffer->is_at(page, at)) broken("realloc loses bytes", {page, 1, at});
      if (!is_known && buffer->pages[page].is_readable()) fill(buffer, page, at);
    }
  }

  void change(Buffer* buffer) {
    const Part part = some(*buffer, 40);
    const bool is_good = all_of(*buffer, part, [](const Page& it) { return it.state == kGood; });
    switch (random_.below(10)) {
      case 0:
      case 1:
        return replace(buffer, part);
      case 2:
        return take_away(buffer, part);
      case 3:
      case 4:
        return guard(buffer, {part.page, 1, part.at});
      case 5:
      case 6:
        return open(buffer);
      case 7:
        doing_.say("mmap of a file that there is not");
        if (mmap(part.at, part.bytes(), PROT_READ, MAP_PRIVATE | MAP_FIXED, 1000000, 0) !=
            MAP_FAILED) {
          broken("mmap is not refused", part);
        }
        return;
      default:
        if (!is_good) return;
        doing_.say("madvise");
        if (madvise(part.at, part.bytes(), MADV_DONTNEED) == 0) set(buffer, part, {kGood, 0});
    }
  }

  bool may_make_hole(const Buffer& buffer) {
    if (buffer.is_own) return true;
    return counts.holes < kMostHoles && counts.holes.fetch_add(1) < kMostHoles;
  }
  void replace(Buffer* buffer, const Part& part) {
    if (!may_make_hole(*buffer)) return;
    doing_.say("mmap over memory");
    if (map(part.at, part.bytes(), MAP_FIXED) != part.at) return broken("mmap fails", part);
    set(buffer, part, {buffer->is_own ? kGood : kOthers, 0});
  }
  // By unmapping it, or by moving it elsewhere with its bytes. Not for the program's own mappings:
  // other threads could then be given the addresses.
  void take_away(Buffer* buffer, const Part& part) {
    if (buffer->is_own || any_is(*buffer, part, kUnmapped) || !may_make_hole(*buffer)) return;
    if (random_.below(2) == 0 || !all_of(*buffer, {part.page, 1, part.at},
                                         [](const Page& it) { return it.state == kGood; })) {
      doing_.say("munmap");
      if (munmap(part.at, part.bytes()) != 0) return broken("munmap fails", part);
      return set(buffer, part, {kUnmapped, 0});
    }
    doing_.say("mremap");
    void* const away = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mremap(part.at, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, away) != away) {
      return broken("mremap fails", part);
    }
    if (!buffer->is_at(part.page, away)) broken("mremap moves other bytes", part);
    munmap(away, kPage);
    set(buffer, {part.page, 1, part.at}, {kUnmapped, 0});
  }
  void guard(Buffer* buffer, const Part& part) {
    if (buffer->pages[part.page].state != kGood) return;
    doing_.say("mprotect");
    if (mprotect(part.at, kPage, PROT_NONE) != 0) return;
    buffer->pages[part.page].state = kShut;
    ++counts.guards;
  }
  void open(Buffer* buffer) {
    doing_.say("mprotect back");
    for (size_t page = 0; page < buffer->pages.size(); ++page) {
      if (buffer->pages[page].state != kShut) continue;
      if (mprotect(buffer->at + page * kPage, kPage, PROT_READ | PROT_WRITE) != 0) return;
      buffer->pages[page].state = kGood;
    }
  }

  void look(Buffer* buffer, Way* way) {
    const Part part = some(*buffer);
    const bool is_readable = all_of(*buffer, part, [](const Page& it) { return it.is_readable(); });
    ++counts.looks;
    if (is_readable) check_memory(*buffer, part, "the program reads other bytes than it wrote");
    const Excuse excuse;
    void* handle = nullptr;
    doing_.say(way->name());
    void* const pages = way->acquire(part.at, part.bytes(), &handle);
    if (pages != nullptr && any_is(*buffer, part, kUnmapped)) {
      broken("a key for pages that are gone", part);
    } else if (pages == nullptr && is_readable && !excuse.holds()) {
      probe::verdict.broken("%s refuses %zu good pages of %s: %s", way->name(), part.count,
                            buffer->is_own ? "the program's own" : "malloc's", way->why());
    } else if (pages == nullptr && is_readable) {
      ++counts.refusals;
    } else if (pages != nullptr && is_readable) {
      transfer(buffer, part, pages);
    }
    doing_.say("giving it back");
    way->release(handle);
  }

  void check_memory(const Buffer& buffer, const Part& part, const char* what) {
    if (!holds(buffer, part)) broken(what, part);
  }
  static bool holds(const Buffer& buffer, const Part& part) {
    for (size_t i = 0; i < part.count; ++i) {
      if (!buffer.is_at(part.page + i, part.at + i * kPage)) return false;
    }
    return true;
  }
  static void stale(const char* what, const Part& part) {
    ++counts.stale;
    broken(what, part);
  }
  void check_sent(const Buffer& buffer, const Part& part, void* pages) {
    bool is_right = true;
    const bool is_sent = device().send(pages, part.at, part.bytes(), [&](const unsigned char* got) {
      for (size_t i = 0; i < part.count; ++i) {
        is_right = is_right && buffer.is_at(part.page + i, got + i * kPage);
      }
    });
    if (!is_sent) return broken("the device does not take the key", part);
    if (!is_right) stale("stale: the device has other bytes than the program", part);
  }
  // In both directions.
  void transfer(Buffer* buffer, const Part& part, void* pages) {
    doing_.say("sending");
    check_sent(*buffer, part, pages);
    doing_.say("receiving");
    const auto make = [&](unsigned char* out) {
      for (size_t i = 0; i < part.count; ++i) fill(buffer, part.page + i, out + i * kPage);
    };
    if (!device().receive(pages, part.at, part.bytes(), make)) {
      return broken("the device does not take the key", part);
    }
    if (!holds(*buffer, part))
      stale("stale: the program has other bytes than the device wrote", part);
  }

  // rdm_lookup refuses, or returns the current pages.
  void look_up(const Buffer& buffer, Nested* nested) {
    const Part part = some(buffer);
    doing_.say("rdm_lookup");
    void* const pages = nested->look_up(part.at, part.bytes());
    if (pages == nullptr) return;
    if (any_is(buffer, part, kUnmapped) || any_is(buffer, part, kOthers)) {
      return stale("stale: rdm_lookup has pages that are gone", part);
    }
    if (!any_is(buffer, part, kShut)) check_sent(buffer, part, pages);
  }

  probe::Random random_;
  const bool behind_;
  probe::Watchdog::Doing& doing_;
  Buffer all_[kBuffers];
};

}  // namespace together
