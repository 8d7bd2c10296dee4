// An address keeps its page, for the CPU and for the device, whatever tries to separate them.
//
//   moves migrate      the kernel is told to compact memory and to move the process's pages back
//                      and forth between the NUMA nodes. Without the library: mlocked memory.
//   moves advise       the program itself gives advice that would drop or swap the heap's pages.
//                      Without the library: a registered buffer.
#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <vector>

#include "tests/guest/keys.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace {

constexpr size_t kLargest = size_t{1} << 20;
probe::Verdict verdict;

struct Object {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  std::vector<uint64_t> frames;  // of its pages
};

size_t pages_of(const Object& object) {
  const auto first = reinterpret_cast<uintptr_t>(object.bytes) / probe::kPage;
  return (reinterpret_cast<uintptr_t>(object.bytes) + object.size - 1) / probe::kPage - first + 1;
}

const unsigned char* page_at(const Object& object, size_t page) {
  const auto base = reinterpret_cast<uintptr_t>(object.bytes) & ~(probe::kPage - 1);
  return reinterpret_cast<const unsigned char*>(base + page * probe::kPage);
}

std::vector<Object> make_objects(size_t count) {
  probe::Random random(3);
  std::vector<Object> made(count);
  for (Object& object : made) {
    object.size = random.size_between(64, kLargest);
    object.bytes = static_cast<unsigned char*>(malloc(object.size));
    if (object.bytes == nullptr) probe::refused("out of memory");
    memset(object.bytes, 1, object.size);
  }
  return made;
}

// Writes through the CPU and reads through the device.
class Witness {
 public:
  bool find(const Object& object, rdm_mr* out) {
    return keys_.find(object.bytes, object.size, out);
  }

  void check(const Object& object, const char* after) {
    rdm_mr mr{};
    if (!find(object, &mr)) return verdict.broken("after %s: no key", after);
    memset(object.bytes, ++fill_, object.size);
    memset(peer_.bytes(), 0, object.size);
    const guest::Piece exposed{object.bytes, object.size, mr.rkey};
    const ibv_wc_status status = pair_.read(peer_.local(object.size), exposed);
    if (status != IBV_WC_SUCCESS) {
      verdict.broken("after %s: %s", after, ibv_wc_status_str(status));
    } else if (memcmp(object.bytes, peer_.bytes(), object.size) != 0) {
      verdict.broken("after %s: the device sees other bytes than the CPU wrote", after);
    }
  }

 private:
  guest::RcPair pair_;
  guest::PeerBuffer peer_{pair_, kLargest};
  guest::Keys keys_{pair_};
  int fill_ = 1;
};

void record_frames(Object& object) {
  for (size_t page = 0; page < pages_of(object); ++page) {
    object.frames.push_back(probe::page_frame(page_at(object, page)));
  }
}

void check_frames(const Object& object, const char* after) {
  for (size_t page = 0; page < object.frames.size(); ++page) {
    const uint64_t now = probe::page_frame(page_at(object, page));
    if (now == object.frames[page]) continue;
    verdict.broken("after %s: a page of %zu bytes is in frame %#lx, was in %#lx", after,
                   object.size, now, object.frames[page]);
    return;
  }
}

// ---- migrate

void move_to(unsigned node) {
  const unsigned long to = 1UL << node;
  const unsigned long from = ~to & 3;
  if (syscall(SYS_migrate_pages, 0, 3UL, &from, &to) < 0) probe::skip("no second NUMA node");
}

void move_each_to(const std::vector<Object>& objects, unsigned node) {
  for (const Object& object : objects) {
    const size_t count = pages_of(object);
    std::vector<const void*> pages(count);
    for (size_t page = 0; page < count; ++page) pages[page] = page_at(object, page);
    const std::vector<int> wanted(count, static_cast<int>(node));
    std::vector<int> got(count);
    (void)syscall(SYS_move_pages, 0, count, pages.data(), wanted.data(), got.data(),
                  MPOL_MF_MOVE_ALL);
  }
}

void collapse(const std::vector<Object>& objects) {
  constexpr uintptr_t kHuge = uintptr_t{2} << 20;
  for (const Object& object : objects) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(object.bytes) & ~(kHuge - 1);
    (void)madvise(reinterpret_cast<void*>(base), kHuge, MADV_COLLAPSE);
  }
}

void compact() {
  const int fd = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "1", 1) != 1) probe::skip("cannot have memory compacted: needs root");
  close(fd);
}

void migrate() {
  probe::need_page_frames();
  std::vector<Object> objects = make_objects(40);
  Witness witness;
  for (Object& object : objects) {
    rdm_mr mr{};
    if (!probe::library().loaded()) {
      if (mlock(object.bytes, object.size) != 0) probe::skip("mlock failed");
    } else if (!witness.find(object, &mr)) {
      verdict.broken("no key for an object of the heap");
    }
    record_frames(object);
  }
  const auto check = [&](const char* after) {
    printf("%s\n", after);
    fflush(stdout);
    for (const Object& object : objects) {
      check_frames(object, after);
      if (probe::library().loaded()) witness.check(object, after);
    }
  };
  for (unsigned round = 0; round < 2; ++round) {
    move_to(round % 2);
    check("migrate_pages");
    move_each_to(objects, (round + 1) % 2);
    check("move_pages");
    compact();
    check("compaction");
    collapse(objects);
    check("MADV_COLLAPSE");
  }
}

// ---- advise

struct Advice {
  int advice;
  const char* name;
};
constexpr Advice kAdvice[] = {{MADV_DONTNEED, "MADV_DONTNEED"},
                              {MADV_FREE, "MADV_FREE"},
                              {MADV_REMOVE, "MADV_REMOVE"},
                              {MADV_COLD, "MADV_COLD"},
                              {MADV_PAGEOUT, "MADV_PAGEOUT"}};

void advise() {
  Witness witness;
  for (Object& object : make_objects(20)) {
    if (object.size < 2 * probe::kPage) continue;
    rdm_mr mr{};
    if (!witness.find(object, &mr)) verdict.broken("no key");
    auto* inside = const_cast<unsigned char*>(page_at(object, 1));
    const size_t length = (pages_of(object) - 2) * probe::kPage;
    if (length == 0) continue;
    record_frames(object);
    for (const Advice& advice : kAdvice) {
      memset(object.bytes, 'k', object.size);
      // Where pages are dropped, the program expects zeros.
      unsigned char expected = 'k';
      if (madvise(inside, length, advice.advice) == 0) {
        printf("%s was taken\n", advice.name);
        if (advice.advice == MADV_DONTNEED) expected = 0;
      } else if (errno != EINVAL && errno != EPERM) {
        verdict.broken("%s: %s", advice.name, strerror(errno));
      }
      if (inside[0] != expected || inside[length - 1] != expected) {
        verdict.broken("after %s: other bytes", advice.name);
      }
      check_frames(object, advice.name);
      witness.check(object, advice.name);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "advise") == 0) {
    advise();
  } else {
    migrate();
  }
  return verdict.status();
}
