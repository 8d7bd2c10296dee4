// A program unmaps malloc'd pages, maps something else over them, or revokes its access to them,
// while a device has them registered.
//
//   holes anonymous|file|munmap|mremap|shm|number
//     After pages are destroyed this way, lookups never find them again, the rest of the region
//     stays registered, the program's new mapping stays intact, and free, realloc and malloc cope.
//     The control is a naive registration cache beside stock malloc: it answers with the old pages.
//   holes stacks before|after
//     Stacks with a guard page, made before or after the domain is opened: all other memory is
//     registered, and a stack freed with its guard still inaccessible is malloc'd whole again. The
//     control's malloc returns unwritable memory.
//   holes churn ROUNDS
//     Threads that do all of this to their blocks at random, and free and malloc them, never see a
//     stale byte. The control's naive caches do.
//   holes nothing
//     Calls that the kernel refuses, or that change nothing, lose nothing.
#include <malloc.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/integration/regcache/uring_device.h"

namespace {

using probe::kPage;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kRoom = 32 * kMiB;

probe::Verdict verdict;
uint64_t seed = 0;
decltype(rdm_get)* const get = probe::symbol<decltype(rdm_get)>("rdm_get");
decltype(rdm_put)* const put = probe::symbol<decltype(rdm_put)>("rdm_put");
decltype(rdm_last_error)* const last_error =
    probe::symbol<decltype(rdm_last_error)>("rdm_last_error");

// Pages of a block, and what the program does to them.
struct Hole {
  char* at = nullptr;
  size_t bytes = 0;
  bool is_mapped = false;
  std::vector<char> content;  // the bytes that lie there afterwards
};

char* aligned(size_t size) {
  void* got = nullptr;
  if (posix_memalign(&got, kPage, size) != 0) probe::refused("out of memory");
  return static_cast<char*>(got);
}

// Both directions: what the program writes is sent, what the peer sends is read.
void check(probe::KeyedDevice& keyed, char* buffer, size_t size, const char* what) {
  if (size == 0) return;
  const int key = keyed.key_of(buffer, size);
  if (key < 0) return verdict.broken("%s of %zu bytes: no key", what, size);
  const auto index = static_cast<uint32_t>(key);
  const probe::Pattern written(++seed);
  written.fill(buffer, size);
  if (keyed.device().send(index, buffer, size) != 0 ||
      written.mismatch(keyed.device().peer(), size) != size) {
    verdict.broken("%s of %zu bytes: the peer does not get what was written", what, size);
  }
  const probe::Pattern sent(++seed);
  sent.fill(keyed.device().peer(), size);
  if (keyed.device().receive(index, buffer, size) != 0 || sent.mismatch(buffer, size) != size) {
    verdict.broken("%s of %zu bytes: the program does not see what was sent", what, size);
  }
}

int memory_file(const std::vector<char>& content) {
  const int fd = memfd_create("hole", MFD_CLOEXEC);
  if (fd < 0 || write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    probe::skip("no file in memory");
  }
  return fd;
}

void* map_over(const Hole& hole, int flags, int fd) {
  return mmap(hole.at, hole.bytes, PROT_READ | PROT_WRITE, MAP_FIXED | flags, fd, 0);
}

bool attach_over(const Hole& hole) {
  const int id = shmget(IPC_PRIVATE, hole.bytes, IPC_CREAT | 0600);
  if (id < 0) probe::skip("no System V segments here");
  const bool is_done = shmat(id, hole.at, SHM_REMAP) == hole.at;
  shmctl(id, IPC_RMID, nullptr);
  return is_done;
}

// A block may lie in several mappings, which before Linux 6.17 cannot be moved at once.
bool move_away(const Hole& hole) {
  const auto room = [&] {
    void* const there = mmap(nullptr, hole.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return static_cast<char*>(there);
  };
  const auto move = [](char* from, size_t bytes, char* to) {
    return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
  };
  if (move(hole.at, hole.bytes, room())) return true;
  if (errno != EFAULT) return false;
  // The refused call has unmapped its room, which may be another thread's by now.
  char* const away = room();
  size_t moved = 0;
  while (moved < hole.bytes && move(hole.at + moved, kPage, away + moved)) moved += kPage;
  return moved == hole.bytes;
}

// Replaces whole pages with foreign ones that hold known bytes.
void destroy(const char* way, Hole* hole) {
  hole->content.assign(hole->bytes, static_cast<char>('a' + ++seed % 26));
  hole->is_mapped = true;
  bool is_done = false;
  if (strcmp(way, "anonymous") == 0) {
    is_done = map_over(*hole, MAP_PRIVATE | MAP_ANONYMOUS, -1) == hole->at;
  } else if (strcmp(way, "number") == 0) {
    is_done =
        syscall(SYS_mmap, hole->at, hole->bytes, PROT_READ | PROT_WRITE,
                MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == reinterpret_cast<long>(hole->at);
  } else if (strcmp(way, "file") == 0) {
    const int fd = memory_file(hole->content);
    is_done = map_over(*hole, MAP_SHARED, fd) == hole->at;
    close(fd);
  } else if (strcmp(way, "shm") == 0) {
    is_done = attach_over(*hole);
  } else if (strcmp(way, "munmap") == 0) {
    hole->is_mapped = false;
    is_done = munmap(hole->at, hole->bytes) == 0;
  } else if (strcmp(way, "mremap") == 0) {
    hole->is_mapped = false;
    is_done = move_away(*hole);
  }
  if (!is_done) return verdict.broken("%s fails: %s", way, strerror(errno));
  if (hole->is_mapped) memcpy(hole->at, hole->content.data(), hole->bytes);
}

// Whoever has a key sends what the program would read.
void check_not_stale(probe::KeyedDevice& keyed, const Hole& hole, char* at, size_t size) {
  const int key = keyed.key_of(at, size);
  if (key < 0) {
    if (probe::library().loaded() && last_error()[0] == '\0')
      verdict.broken("no sentence says why");
    return;
  }
  if (!hole.is_mapped) return verdict.broken("%zu bytes with unmapped pages have a key", size);
  (void)keyed.device().send(static_cast<uint32_t>(key), at, size);
  if (memcmp(keyed.device().peer(), at, size) != 0) {
    verdict.broken("the peer gets %zu bytes of pages that are gone", size);
  }
  if (probe::library().loaded()) verdict.broken("a lookup finds %zu bytes with a hole", size);
}

// Registers the new pages with rdm_get, together with malloc'd memory on both sides, or else one
// after the other.
void check_get(probe::KeyedDevice& keyed, const Hole& hole, char* at, size_t size) {
  rdm_mr mr{};
  const int status = get(keyed.domain(), at, size, &mr);
  if (!hole.is_mapped) {
    if (status == RDM_OK) verdict.broken("rdm_get of unmapped pages succeeds");
    return;
  }
  // Linux 6.1 registers no System V segment, and no memory of a file together with any other.
  if (status == RDM_SYSTEM && probe::kernel_refuses(at, size) == EOPNOTSUPP) {
    if (strstr(last_error(), "a file that the kernel does not pin") == nullptr) {
      verdict.broken("rdm_get does not say what is not pinned: %s", last_error());
    }
    return;
  }
  if (status == RDM_SYSTEM && hole.at != nullptr && probe::kernel_refuses(at, size) == EINVAL) {
    if (strstr(last_error(), "register its parts") == nullptr) {
      verdict.broken("rdm_get does not say what helps: %s", last_error());
    }
    const Hole part{nullptr, 0, true, {}};
    char* const behind = hole.at + hole.bytes;
    if (hole.at != at) check_get(keyed, part, at, static_cast<size_t>(hole.at - at));
    check_get(keyed, part, hole.at, hole.bytes);
    if (behind != at + size) {
      check_get(keyed, part, behind, static_cast<size_t>(at + size - behind));
    }
    return;
  }
  if (status != RDM_OK) return verdict.broken("rdm_get: status %d: %s", status, last_error());
  if (keyed.device().send(mr.lkey, at, size) != 0 || memcmp(keyed.device().peer(), at, size) != 0) {
    verdict.broken("by rdm_get the peer gets other bytes than the program reads");
  }
  if (put(keyed.domain(), &mr) != RDM_OK) verdict.broken("rdm_put: %s", last_error());
}

void check_content(const Hole& hole, const char* after) {
  if (hole.is_mapped && memcmp(hole.at, hole.content.data(), hole.bytes) != 0) {
    verdict.broken("after %s somebody has written over what the program mapped", after);
  }
}

// New blocks are intact and registered, and lie outside the hole.
void check_malloc(probe::KeyedDevice& keyed, const Hole& hole, size_t size, size_t count) {
  std::vector<char*> blocks;
  for (size_t i = 0; i < count; ++i) {
    char* const block = i % 2 == 0 ? aligned(size) : static_cast<char*>(calloc(1, size));
    if (block < hole.at + hole.bytes && hole.at < block + size) {
      verdict.broken("malloc returns pages that were destroyed");
    } else if (i < 8) {
      check(keyed, block, size, "a new block");
    } else {
      memset(block, 1, size);
    }
    blocks.push_back(block);
  }
  for (char* block : blocks) free(block);
}

void try_block(probe::KeyedDevice& keyed, const char* way, size_t size, Hole hole, bool grows) {
  char* buffer = aligned(size);
  char* const neighbour = aligned(size);
  const size_t before = reinterpret_cast<size_t>(hole.at);
  hole.at = buffer + before;
  const size_t behind = size - before - hole.bytes;
  check(keyed, buffer, size, "a block");
  destroy(way, &hole);
  check_not_stale(keyed, hole, buffer, size);
  if (verdict.status() != 0) return;
  check_not_stale(keyed, hole, hole.at, kPage);
  check_not_stale(keyed, hole, hole.at + hole.bytes - 1, 1);
  if (before != 0) check_not_stale(keyed, hole, hole.at - 1, 2);
  if (behind != 0) check_not_stale(keyed, hole, hole.at + hole.bytes - 1, 2);
  check(keyed, buffer, before, "what lies before the hole");
  check(keyed, hole.at + hole.bytes, behind, "what lies behind the hole");
  check(keyed, neighbour, size, "a neighbour");
  check_get(keyed, hole, buffer, size);
  check_get(keyed, Hole{nullptr, 0, true, {}}, neighbour, size);
  if (grows) {
    memset(buffer, 'x', before);
    char* const old = buffer;
    buffer = static_cast<char*>(realloc(buffer, 2 * size));
    for (size_t i = 0; i < before; ++i) {
      if (buffer[i] != 'x') return verdict.broken("realloc loses what lies before the hole");
    }
    if (hole.is_mapped && memcmp(buffer + before, hole.content.data(), hole.bytes) != 0) {
      verdict.broken("realloc loses what lies in the hole");
    }
    check_content(hole, "realloc");
    // A block that grows where it lies keeps its hole.
    const size_t beyond = buffer == old ? before + hole.bytes : 0;
    if (buffer == old) check(keyed, buffer, before, "what lies before the hole of a grown block");
    check(keyed, buffer + beyond, 2 * size - beyond, "what realloc returned");
  }
  free(buffer);
  check_content(hole, "free");
  check_malloc(keyed, hole, size, size < kMiB ? 400 : 12);
  check_malloc(keyed, hole, 2 * size, size < kMiB ? 40 : 6);
  check_content(hole, "malloc");
  free(neighbour);
  // Maps over the same addresses again and unmaps: nothing may be placed there.
  if (hole.is_mapped) {
    const bool is_done =
        strcmp(way, "shm") == 0 ? shmdt(hole.at) == 0 : munmap(hole.at, hole.bytes) == 0;
    if (!is_done) verdict.broken("what lies in the hole cannot be unmapped");
  }
  if (probe::library().owns(hole.at)) verdict.broken("rdm_owns a page that was destroyed");
}

void try_destroying(const char* way) {
  static probe::KeyedDevice keyed(kRoom, verdict);
  // The whole pages nearest to so many units of 4 KiB.
  const auto hole = [](size_t unit, size_t units) {
    constexpr size_t kUnit = 4096;
    const size_t pages = (units * kUnit + kPage - 1) / kPage;
    return Hole{reinterpret_cast<char*>(unit * kUnit / kPage * kPage), pages * kPage, false, {}};
  };
  for (const bool grows : {false, true}) {
    try_block(keyed, way, 8 * kMiB, hole(1000, 1), grows);
    if (verdict.status() != 0) return;
    try_block(keyed, way, 8 * kMiB, hole(512, 700), grows);
    try_block(keyed, way, 8 * kMiB, hole(0, 2048), grows);
    try_block(keyed, way, kMiB, hole(3, 5), grows);
    try_block(keyed, way, 64 << 10, hole(15, 1), grows);
    try_block(keyed, way, kPage, hole(0, 1), grows);
    try_block(keyed, way, 4 * kPage, hole(kPage / 4096, 1), grows);
  }
  if (!probe::library().loaded()) return;
  const rdm_stats now = probe::stats();
  if (now.pinned_bytes != probe::locked_bytes()) {
    verdict.broken("%llu bytes are locked by our books, %llu by the kernel's",
                   static_cast<unsigned long long>(now.pinned_bytes),
                   static_cast<unsigned long long>(probe::locked_bytes()));
  }
}

void die_writing(int) {
  constexpr char kWhy[] = "malloc returned memory that may not be written to\n";
  (void)!write(STDOUT_FILENO, kWhy, sizeof kWhy - 1);
  _exit(probe::kBroken);
}

void try_stacks(bool before) {
  signal(SIGSEGV, die_writing);
  // Stock malloc would unmap stacks of large pages, and their guards with them.
  if (!probe::library().loaded()) mallopt(M_MMAP_THRESHOLD, static_cast<int>(kRoom));
  constexpr size_t kStacks = 200;
  const size_t sizes[] = {kPage, 4 * kPage, 16 * kPage};  // the first is nothing but its guard
  probe::KeyedDevice* keyed = nullptr;
  if (!before) keyed = new probe::KeyedDevice(kRoom, verdict);
  std::vector<char*> stacks;
  for (size_t i = 0; i < kStacks; ++i) {
    const size_t size = sizes[i % 3];
    stacks.push_back(aligned(size));
    memset(stacks.back(), 1, size);
    if (mprotect(stacks.back(), kPage, PROT_NONE) != 0) probe::skip("mprotect fails");
  }
  if (before) keyed = new probe::KeyedDevice(kRoom, verdict);
  for (size_t i = 0; i < kStacks; ++i) {
    const size_t size = sizes[i % 3] - kPage;
    check(*keyed, stacks[i] + kPage, size, "a stack above its guard");
    if (before && probe::library().loaded()) {
      if (keyed->key_of(stacks[i], kPage) >= 0) verdict.broken("a guard page is registered");
    }
  }
  std::vector<char*> fresh;
  for (size_t i = 0; i < 2000; ++i) {
    fresh.push_back(aligned(kPage << i % 5));
    check(*keyed, fresh.back(), kPage << i % 5, "a fresh block");
  }
  // Half are made accessible before free(), as a careful program does; then all pages are usable.
  for (size_t i = 0; i < kStacks; ++i) {
    if (i % 4 < 2 && mprotect(stacks[i], kPage, PROT_READ | PROT_WRITE) != 0) {
      verdict.broken("mprotect fails");
    }
    if (i % 4 < 2 && probe::library().loaded()) {
      if (before && keyed->key_of(stacks[i], kPage) >= 0) {
        verdict.broken("a guard page that was opened again is registered");
      }
      check_get(*keyed, Hole{nullptr, 0, true, {}}, stacks[i], std::min(sizes[i % 3], 3 * kPage));
    }
    free(stacks[i]);
  }
  for (size_t i = 0; i < 4 * kStacks; ++i) {
    const size_t size = sizes[i % 3];
    char* const block = aligned(size);
    memset(block, 1, size);
    if (!probe::library().loaded()) continue;
    check_get(*keyed, Hole{nullptr, 0, true, {}}, block, size);
  }
}

// One thread's blocks and the random changes to them.
class Churn {
 public:
  explicit Churn(uint64_t number) : random_(number) {}

  void run(size_t rounds) {
    for (size_t i = 0; i < rounds && verdict.status() == 0; ++i) {
      Block& block = blocks_[random_.below(kBlocks)];
      if (block.at == nullptr) {
        renew(&block);
      } else if (random_.below(8) == 0) {
        open_all(&block, random_.below(2) == 0);
        free(block.at);
        block.at = nullptr;
      } else {
        change(&block);
      }
      if (block.at != nullptr) look(block);
    }
  }

 private:
  enum State : uint8_t { kGood, kOthers, kUnmapped, kShut };
  struct Block {
    char* at = nullptr;
    size_t pages = 0;
    std::vector<State> states;
  };
  static constexpr size_t kBlocks = 24;

  void renew(Block* block) {
    static const size_t kSizes[] = {1, 2, 4, 9, 16, kMiB * 25 / 64 / kPage, kMiB * 75 / 32 / kPage};
    block->pages = kSizes[random_.below(std::size(kSizes))];
    block->at = aligned(block->pages * kPage);
    block->states.assign(block->pages, kGood);
    memset(block->at, static_cast<int>(random_.below(256)), block->pages * kPage);
  }

  void change(Block* block) {
    const size_t page = random_.below(block->pages);
    const size_t pages = 1 + random_.below(block->pages - page);
    char* const at = block->at + page * kPage;
    const size_t bytes = pages * kPage;
    const auto set = [&](State state) {
      for (size_t i = page; i < page + pages; ++i) {
        if (block->states[i] == kGood || state == kOthers || state == kUnmapped) {
          block->states[i] = state;
        }
      }
    };
    // Stock malloc survives replaced pages, but none of the other changes.
    const uint64_t what = probe::library().loaded() ? random_.below(16) : 0;
    if (what == 0) {
      Hole hole{at, bytes, false, {}};
      destroy("anonymous", &hole);
      set(kOthers);
    } else if (what == 1) {
      Hole hole{at, bytes, false, {}};
      destroy(random_.below(2) == 0 ? "munmap" : "mremap", &hole);
      set(kUnmapped);
    } else if (what < 5) {
      if (mprotect(at, kPage, PROT_NONE) == 0 && block->states[page] == kGood) {
        block->states[page] = kShut;
      } else if (block->states[page] == kOthers) {
        (void)mprotect(at, kPage, PROT_READ | PROT_WRITE);
      }
    } else if (what < 8) {
      open_all(block, true);
    }
  }

  // malloc makes pages accessible that were left inaccessible.
  static void open_all(Block* block, bool all) {
    for (size_t i = 0; all && i < block->pages; ++i) {
      if (block->states[i] != kShut) continue;
      (void)mprotect(block->at + i * kPage, kPage, PROT_READ | PROT_WRITE);
      block->states[i] = kGood;
    }
  }

  // Memory with a key is what the program reads; memory that was never changed has a key.
  void look(const Block& block) {
    const size_t page = random_.below(block.pages);
    const size_t pages = 1 + random_.below(block.pages - page);
    char* const at = block.at + page * kPage;
    bool is_good = true;
    bool is_there = true;
    bool is_gone = false;
    for (size_t i = page; i < page + pages; ++i) {
      is_good = is_good && block.states[i] == kGood;
      is_there = is_there && (block.states[i] == kGood || block.states[i] == kOthers);
      is_gone = is_gone || block.states[i] == kOthers || block.states[i] == kUnmapped;
    }
    const int key = device_.key_of(at, pages * kPage);
    // The control's key leads to bytes that are gone, which is reported below.
    if (key >= 0 && is_gone && probe::library().loaded())
      return verdict.broken("a lookup finds pages that are gone");
    if (is_there) memset(at, static_cast<int>(random_.below(256)), pages * kPage);
    if (key >= 0 && is_there &&
        (device_.device().send(static_cast<uint32_t>(key), at, pages * kPage) != 0 ||
         memcmp(device_.device().peer(), at, pages * kPage) != 0)) {
      verdict.broken("the peer gets other bytes than the program wrote");
    }
    if (is_good && probe::library().loaded())
      check_get(device_, Hole{nullptr, 0, true, {}}, at, pages * kPage);
  }

  probe::Random random_;
  probe::KeyedDevice device_{kRoom, verdict};
  Block blocks_[kBlocks];
};

void churn(size_t rounds) {
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 3; ++i) {
    threads.emplace_back([=] { Churn(i).run(rounds); });
  }
  for (std::thread& thread : threads) thread.join();
}

void try_nothing() {
  static probe::KeyedDevice keyed(kRoom, verdict);
  char* const buffer = aligned(4 * kMiB);
  check(keyed, buffer, 4 * kMiB, "a block");
  char* const at = buffer + kMiB;
  const auto refused = [](bool is_refused, const char* what) {
    if (!is_refused) verdict.broken("%s is not refused", what);
  };
  constexpr int kFlags = MAP_PRIVATE | MAP_FIXED;
  refused(mmap(at, kPage, PROT_READ, kFlags, 1000000, 0) == MAP_FAILED, "mmap of no file");
  refused(mmap(at + 1, kPage, PROT_READ, kFlags | MAP_ANONYMOUS, -1, 0) == MAP_FAILED,
          "mmap of no page");
  refused(mmap(at, kPage, PROT_READ, kFlags | MAP_ANONYMOUS | 0x100000, -1, 0) == MAP_FAILED,
          "mmap that replaces nothing");
  refused(munmap(at + 1, kPage) != 0, "munmap of no page");
  refused(munmap(at, 0) != 0, "munmap of nothing");
  refused(mremap(at, kPage, 2 * kPage, 0) == MAP_FAILED, "mremap into the next page");
  refused(shmat(-1, at, SHM_REMAP) == reinterpret_cast<void*>(-1), "shmat of no segment");
  refused(shmdt(at) != 0, "shmdt of no segment");
  if (mmap(at, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == at) {
    verdict.broken("a hint replaces a page");
  }
  if (mremap(at, kPage, kPage, MREMAP_MAYMOVE) != at) verdict.broken("mremap moves for nothing");
  check(keyed, buffer, 4 * kMiB, "a block that was left alone");
  if (mprotect(at, kPage, PROT_NONE) != 0 || mprotect(at, kPage, PROT_READ | PROT_WRITE) != 0) {
    verdict.broken("mprotect fails");
  }
  check(keyed, buffer, 4 * kMiB, "a block that was shut and opened");
  free(buffer);
  check(keyed, aligned(4 * kMiB), 4 * kMiB, "the next block");
  // A guard page stays one after a refused call over it; free() makes it accessible.
  signal(SIGSEGV, die_writing);
  char* const stack = aligned(4 * kMiB);
  if (mprotect(stack, kPage, PROT_NONE) != 0) probe::skip("mprotect fails");
  refused(mmap(stack, kPage, PROT_READ, kFlags, 1000000, 0) == MAP_FAILED, "mmap of no file");
  free(stack);
  check(keyed, aligned(4 * kMiB), 4 * kMiB, "the block after a guarded one");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return probe::kBroken;
  if (strcmp(argv[1], "stacks") == 0) {
    try_stacks(argc > 2 && strcmp(argv[2], "before") == 0);
  } else if (strcmp(argv[1], "churn") == 0) {
    signal(SIGSEGV, die_writing);
    churn(argc > 2 ? strtoul(argv[2], nullptr, 10) : 10000);
  } else if (strcmp(argv[1], "nothing") == 0) {
    try_nothing();
  } else {
    try_destroying(argv[1]);
  }
  return verdict.status();
}
