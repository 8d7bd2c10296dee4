// An address that lost its page is never used again.
//
//   retired faults
//     Blocks grow by moving, and the heap by gathering: the addresses they leave fault, and
//     rdm_owns and lookups refuse them.
//   retired never THREADS OPERATIONS_PER_THREAD
//     No allocation function hands out a page that the kernel has seen disappear since the program
//     wrote to it. Stock malloc unmaps buffers and reuses their addresses.
//   retired many GIB
//     What is known of that many addresses, once they are retired, takes no memory.
#include <malloc.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/exposed.h"
#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

uintptr_t page_of(const void* address) {
  return reinterpret_cast<uintptr_t>(address) / probe::kPage;
}

// One bit per page of the whole address space; backed on first write.
class PageSet {
 public:
  PageSet() {
    void* got = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) probe::skip("no address space for marks");
    words_ = static_cast<std::atomic<uint64_t>*>(got);
  }
  void add(uintptr_t page) { words_[page / 64].fetch_or(uint64_t{1} << (page % 64)); }
  bool has(uintptr_t page) const { return (words_[page / 64].load() >> (page % 64) & 1) != 0; }

 private:
  // AArch64 gives processes 48 bits.
  const size_t kBytes = (size_t{1} << 48) / probe::kPage / 8;
  std::atomic<uint64_t>* words_;
};

// Calls visit(page, is there) for each page of a range; needs no privileges, because it reads no
// frame numbers. A page that the kernel is moving in memory at that moment is there: it is not
// present, but has an entry as if it were swapped.
template <typename Visit>
void for_each_page(uintptr_t page, size_t pages, Visit visit) {
  static const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  uint64_t entries[512];
  for (size_t done = 0; done < pages;) {
    const size_t step = pages - done < 512 ? pages - done : 512;
    const auto offset = static_cast<off_t>((page + done) * sizeof *entries);
    const auto wanted = static_cast<ssize_t>(step * sizeof *entries);
    if (pread(fd, entries, step * sizeof *entries, offset) != wanted) {
      probe::skip("cannot read pagemap");
    }
    for (size_t i = 0; i < step; ++i) visit(page + done + i, (entries[i] >> 62) != 0);
    done += step;
  }
}

PageSet& lost() {
  static PageSet pages;
  return pages;
}
std::atomic<uint64_t> lost_pages{0};

class Worker {
 public:
  explicit Worker(uint64_t seed) : random_(seed) {}

  void run(uint64_t operations) {
    for (uint64_t i = 0; i < operations && verdict.count() < 10; ++i) {
      Object& object = objects_[random_.below(std::size(objects_))];
      if (object.bytes == nullptr) {
        create(object);
      } else if (random_.below(4) == 0) {
        resize(object);
      } else {
        release(object);
      }
      look_at(given_back_[random_.below(std::size(given_back_))]);
    }
    for (Object& object : objects_) release(object);
  }

  // Once no thread works any more: the kernel and the library agree on every page.
  void compare() {
    if (!probe::library().loaded()) return;
    for (const Range& range : given_back_) {
      for_each_page(range.page, range.pages, [&](uintptr_t page, bool is_there) {
        const auto* address = reinterpret_cast<const void*>(page * probe::kPage);
        if ((probe::library().owns(address) == 1) == is_there) return;
        verdict.broken("page %p is there: %d, and owned: %d", address, is_there, !is_there);
      });
    }
  }

 private:
  struct Object {
    char* bytes = nullptr;
    size_t size = 0;
  };
  struct Range {
    uintptr_t page = 0;
    size_t pages = 0;
  };

  void* get(size_t size) {
    void* got = nullptr;
    switch (random_.below(6)) {
      case 0:
        return calloc(1, size);
      case 1:
        return aligned_alloc(probe::kPage << random_.below(6), size);
      case 2:
        return posix_memalign(&got, 64, size) == 0 ? got : nullptr;
      case 3:
        return realloc(malloc(size / 2 + 1), size);
      case 4:
        if (probe::exposed().alloc != nullptr) {
          return probe::exposed().alloc(size, 0, random_.below(8) == 0 ? RDM_EXPOSED : 0);
        }
        [[fallthrough]];
      default:
        return malloc(size);
    }
  }

  void create(Object& object) {
    const size_t size = random_.size_between(16, 2 * kMiB);
    take(object, get(size), size);
  }

  void take(Object& object, void* got, size_t size) {
    if (got == nullptr) return verdict.broken("%zu bytes were refused", size);
    object = {static_cast<char*>(got), size};
    const uintptr_t end = page_of(object.bytes + size - 1);
    for (uintptr_t page = page_of(got); page <= end; ++page) {
      if (!lost().has(page)) continue;
      verdict.broken("page %#lx lost what was there, and is handed out again", page);
      break;
    }
    // A byte of each page is enough: a page is there or not.
    for (size_t at = 0; at < size; at += probe::kPage) object.bytes[at] = 1;
    object.bytes[size - 1] = 1;
  }

  void resize(Object& object) {
    const Object before = object;
    const size_t size = random_.size_between(16, 2 * kMiB);
    take(object, realloc(object.bytes, size), size);
    if (object.bytes != before.bytes) note(before);
  }

  void release(Object& object) {
    if (object.bytes == nullptr) return;
    free(object.bytes);
    note(object);
    object = {};
  }

  void note(const Object& object) {
    const uintptr_t page = page_of(object.bytes);
    given_back_[next_++ % std::size(given_back_)] = {
        page, page_of(object.bytes + object.size - 1) - page + 1};
  }

  void look_at(const Range& range) {
    for_each_page(range.page, range.pages, [&](uintptr_t page, bool is_there) {
      if (is_there || lost().has(page)) return;
      lost().add(page);
      ++lost_pages;
    });
  }

  probe::Random random_;
  Object objects_[48] = {};
  Range given_back_[1024] = {};
  uint64_t next_ = 0;
};

void check_never(uint64_t count, uint64_t operations) {
  (void)lost();
  std::vector<Worker*> workers;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < count; ++i) workers.push_back(new Worker(i + 1));
  for (Worker* worker : workers) threads.emplace_back([=] { worker->run(operations); });
  for (std::thread& thread : threads) thread.join();
  for (Worker* worker : workers) worker->compare();
  const rdm_stats stats = probe::stats();
  printf("%lu pages were seen to go, of %lu that were retired; %lu regions, %lu mappings\n",
         lost_pages.load(), stats.retired_bytes / probe::kPage, stats.regions, stats.mapped_vmas);
  if (lost_pages == 0) verdict.broken("no page went away: nothing was tried");
}

bool ends_by_fault(char* address, bool by_writing) {
  const probe::ChildEnd end = probe::run_child([=] {
    volatile char* byte = address;
    if (by_writing) {
      *byte = 1;
    } else {
      (void)*byte;
    }
  });
  return end.signal() == SIGSEGV;
}

// Checks that every function refuses the page.
void check_refused(rdm_domain* domain, char* page, const char* how) {
  rdm_mr found{};
  if (probe::library().owns(page) != 0) {
    return verdict.broken("%s: %p is owned still", how, static_cast<void*>(page));
  }
  rdm_region region{};
  if (probe::library().region_of(page, &region) != RDM_NOT_OWNED) {
    verdict.broken("%s: %p lies in a region", how, static_cast<void*>(page));
  }
  const int looked_up = probe::domains().lookup(domain, page, 1, &found);
  if (looked_up != RDM_NOT_OWNED) verdict.broken("%s: a lookup says %d", how, looked_up);
  static const auto get = probe::symbol<decltype(rdm_get)>("rdm_get");
  if (get(domain, page, 1, &found) == RDM_OK) verdict.broken("%s: rdm_get succeeds", how);
  for (const bool by_writing : {false, true}) {
    if (!ends_by_fault(page, by_writing)) {
      verdict.broken("%s: a page that went away does not fault", how);
    }
  }
}

// Moves the block with its pages to a place with room. Returns the new address.
void* check_moved_block(rdm_domain* domain, const char* how) {
  constexpr size_t kBefore = 4 * kMiB;
  auto* const block = static_cast<char*>(probe::grow(kBefore));
  rdm_mr found{};
  if (probe::domains().lookup(domain, block, kBefore, &found) != RDM_OK) {
    verdict.broken("%s: the block was not registered", how);
  }
  auto* const moved = static_cast<char*>(realloc(block, 16 * kBefore));
  if (moved == block) verdict.broken("%s: the block grew where it was, and did not move", how);
  for (const size_t at : {size_t{0}, kBefore / 2, kBefore - probe::kPage}) {
    check_refused(domain, block + at, how);
  }
  memset(moved, 2, 16 * kBefore);
  if (probe::domains().lookup(domain, moved, 16 * kBefore, &found) != RDM_OK) {
    verdict.broken("%s: the moved block has no key", how);
  }
  return moved;
}

// A large request is assembled from holes that are too small for it.
void check_gathered(rdm_domain* domain) {
  constexpr size_t kCount = 64;
  constexpr size_t kSize = 512 << 10;
  const uint64_t retired = probe::stats().retired_bytes;
  static char* blocks[kCount];
  for (char*& block : blocks) block = static_cast<char*>(probe::grow(kSize));
  for (size_t i = 0; i < kCount; i += 2) free(blocks[i]);
  char* const large = static_cast<char*>(probe::grow(kCount * kSize));
  if (probe::stats().retired_bytes == retired) verdict.broken("nothing was gathered");
  size_t gone = 0;
  for (size_t i = 0; i < kCount; i += 2) {
    if (probe::library().owns(blocks[i]) == 1) continue;
    if (++gone <= 4) check_refused(domain, blocks[i], "gathered");
    // A range that ends in retired addresses is unowned, too.
    rdm_mr found{};
    if (probe::domains().lookup(domain, blocks[i] + probe::kPage - 1, 2, &found) == RDM_OK) {
      verdict.broken("a lookup succeeds across a page that went away");
    }
  }
  if (gone == 0) verdict.broken("no freed block was gathered");
  free(large);
}

// Frees every other block, and makes one of as many bytes, for which their pages are gathered.
void gather_half() {
  constexpr size_t kCount = 256;
  constexpr size_t kSize = 512 << 10;
  static char* blocks[kCount];
  for (char*& block : blocks) block = static_cast<char*>(probe::grow(kSize));
  for (size_t i = 0; i < kCount; i += 2) free(blocks[i]);
  free(probe::grow(kCount / 2 * kSize));
  for (size_t i = 1; i < kCount; i += 2) free(blocks[i]);
}

void check_many(uint64_t gib) {
  constexpr uint64_t kAllowed = kMiB / 2;
  constexpr uint64_t kWarmUp = 2;
  constexpr uint64_t kMostRounds = 32;  // for a GiB
  uint64_t resident = 0;
  uint64_t first = 0;
  uint64_t retired = 0;
  for (uint64_t round = 0; round < (kWarmUp + gib) * kMostRounds; ++round) {
    gather_half();
    retired = probe::stats().retired_bytes;
    if (resident == 0 && retired >= kWarmUp << 30) {
      resident = probe::resident_bytes();
      first = retired;
    }
    if (resident != 0 && retired - first >= gib << 30) break;
  }
  const uint64_t after = probe::resident_bytes();
  printf("%lu MiB retired, then %lu MiB: resident %lu KiB, then %lu KiB\n", first >> 20,
         (retired - first) >> 20, resident >> 10, after >> 10);
  if (resident == 0 || retired - first < gib << 30) verdict.broken("too little was retired");
  if (after > resident + kAllowed) verdict.broken("the heap's tables grew");
}

void check_faults() {
  // One opened before anything is retired, and one after.
  rdm_domain* const early = probe::open_domain(-1, verdict);
  void* const first = check_moved_block(early, "moved");
  rdm_domain* const late = probe::open_domain(-1, verdict);
  void* const second = check_moved_block(late, "moved, with two domains");
  check_gathered(late);
  free(first);
  free(second);
  for (rdm_domain* domain : {early, late}) {
    if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing a domain failed");
  }
  const rdm_stats books = probe::stats();
  if (books.pinned_bytes != probe::locked_bytes()) {
    verdict.broken("%lu bytes locked by the books, %lu by the kernel", books.pinned_bytes,
                   probe::locked_bytes());
  }
  if (!probe::comes_to(0, probe::pinned_by_kernel)) verdict.broken("pages stay pinned");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "never") == 0) {
    check_never(probe::argument(argc, argv, 2, 2), probe::argument(argc, argv, 3, 500000));
    return verdict.status();
  }
  if (!probe::library().loaded()) probe::skip("needs the library");
  if (argc > 1 && strcmp(argv[1], "many") == 0) {
    check_many(probe::argument(argc, argv, 2, 16));
  } else {
    check_faults();
  }
  return verdict.status();
}
