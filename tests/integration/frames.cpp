// An address keeps its page: under mixed work in many threads, while the kernel compacts memory,
// every address keeps its page frame while an object lives there and when another follows, and a
// device that reads through registrations sees the current bytes. Without the library, each
// object's pages are registered when first seen, as registration caches do that never learn of
// free().
//
//   frames THREADS OPERATIONS_PER_THREAD
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/integration/regcache/fixed_buffers.h"

namespace {

constexpr size_t kLargest = 512 << 10;
constexpr uint64_t kDeviceEvery = 64;

probe::Verdict verdict;
probe::FixedBuffers* device;
std::atomic<uint64_t> sent_objects{0};

// Page -> frame and buffer index, for every page ever seen. Open addressing; entries are never
// removed.
class PageTable {
 public:
  struct Entry {
    std::atomic<uintptr_t> page{0};
    std::atomic<uint64_t> frame{0};
    std::atomic<int> buffer{-1};
  };

  // Null if the table is full.
  Entry* find(uintptr_t page) {
    size_t slot = (page >> 12) * 0x9E3779B97F4A7C15U >> (64 - kBits);
    for (size_t tries = 0; tries < kSize; ++tries, slot = (slot + 1) % kSize) {
      uintptr_t present = entries_[slot].page.load();
      if (present == page) return &entries_[slot];
      if (present == 0 && entries_[slot].page.compare_exchange_strong(present, page)) {
        return &entries_[slot];
      }
      if (present == page) return &entries_[slot];
    }
    return nullptr;
  }

 private:
  static constexpr int kBits = 22;
  static constexpr size_t kSize = size_t{1} << kBits;
  Entry entries_[kSize];
};
PageTable pages;

// What is registered: runs of pages between retired pages, as in a domain. A retired address is
// never used again, so a run stays valid.
class Registrar {
 public:
  // -1: the device accepts no more buffers.
  int buffer_of(const void* address, size_t size) {
    const std::lock_guard hold(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto next = runs_.upper_bound(at);
    if (next != runs_.begin()) {
      const Run& run = std::prev(next)->second;
      if (at + size <= run.end) return run.buffer;
    }
    rdm_region region;
    if (probe::region_of(address, size, &region)) {
      const auto base = reinterpret_cast<uintptr_t>(region.base);
      return add(at, size, base, base + region.length);
    }
    verdict.broken("%p lies in no region", address);
    return -1;
  }

 private:
  struct Run {
    uintptr_t end;
    int buffer;
  };

  static bool owns(uintptr_t page) {
    return probe::library().owns(reinterpret_cast<void*>(page)) == 1;
  }

  // Registers as much as possible around the object; if others are growing the heap, just its own
  // pages.
  int add(uintptr_t at, size_t size, uintptr_t base, uintptr_t end) {
    const uintptr_t first = at & ~(probe::kPage - 1);
    const uintptr_t last = (at + size + probe::kPage - 1) & ~(probe::kPage - 1);
    uintptr_t from = first;
    uintptr_t to = last;
    while (from > base && owns(from - probe::kPage)) from -= probe::kPage;
    while (to < end && owns(to)) to += probe::kPage;
    int buffer = device->add(reinterpret_cast<void*>(from), to - from);
    if (buffer < 0) {
      from = first;
      to = last;
      buffer = device->add(reinterpret_cast<void*>(from), to - from);
    }
    if (buffer >= 0) runs_[from] = {to, buffer};
    return buffer;
  }

  std::mutex mutex_;
  std::map<uintptr_t, Run> runs_;
};
Registrar registrar;

struct Object {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  unsigned char fill = 0;
};

uintptr_t page_of(const void* address) {
  return reinterpret_cast<uintptr_t>(address) & ~(probe::kPage - 1);
}

void check_page(const void* address, const char* when) {
  PageTable::Entry* entry = pages.find(page_of(address));
  if (entry == nullptr) return;
  const uint64_t now = probe::page_frame(address);
  uint64_t recorded = 0;
  if (entry->frame.compare_exchange_strong(recorded, now) || recorded == now) return;
  verdict.broken("page %#lx %s: frame %#lx, was %#lx", page_of(address), when, now, recorded);
}

// The buffer to read an object through, or -1.
int registration_of(const Object& object) {
  if (probe::library().loaded()) return registrar.buffer_of(object.bytes, object.size);
  PageTable::Entry* entry = pages.find(page_of(object.bytes));
  if (entry == nullptr) return -1;
  if (entry->buffer.load() < 0) {
    const uintptr_t end = page_of(object.bytes + object.size - 1) + probe::kPage;
    const uintptr_t page = page_of(object.bytes);
    entry->buffer = device->add(reinterpret_cast<void*>(page), end - page);
  }
  return entry->buffer;
}

void check_through_device(const Object& object) {
  const int buffer = registration_of(object);
  if (buffer < 0) return;
  ++sent_objects;
  unsigned char sent[64];
  const size_t length = object.size < sizeof sent ? object.size : sizeof sent;
  // A registration made for a shorter object at this address refuses; that is not a wrong byte.
  if (!device->read_through(buffer, object.bytes, length, sent)) return;
  for (size_t i = 0; i < length; ++i) {
    if (sent[i] == object.fill) continue;
    verdict.broken("the device sent %#x for %#x at %p", sent[i], object.fill,
                   static_cast<void*>(object.bytes));
    return;
  }
}

void create(Object& object, probe::Random& random) {
  object.size = random.size_between(16, kLargest);
  object.fill = static_cast<unsigned char>(random.next());
  object.bytes = static_cast<unsigned char*>(malloc(object.size));
  if (object.bytes == nullptr) probe::refused("out of memory");
  (void)registration_of(object);  // before frames are recorded: they must not change from here on
  memset(object.bytes, object.fill, object.size);
  check_page(object.bytes, "of a new object");
  check_page(object.bytes + object.size - 1, "of a new object");
}

void work(uint64_t seed, uint64_t operations) {
  probe::Random random(seed);
  Object objects[64];
  for (uint64_t i = 0; i < operations; ++i) {
    Object& object = objects[random.below(64)];
    if (object.bytes == nullptr) {
      create(object, random);
    } else {
      check_page(object.bytes, "of a live object");
      check_page(object.bytes + object.size - 1, "of a live object");
      if (random.below(kDeviceEvery) == 0) check_through_device(object);
      free(object.bytes);
      object.bytes = nullptr;
    }
  }
}

void compact_until(const std::atomic<bool>& done) {
  const int fd = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);
  while (!done) {
    if (fd >= 0) (void)!write(fd, "1", 1);
    usleep(300000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  probe::need_page_frames();
  const uint64_t threads = probe::argument(argc, argv, 1, 8);
  const uint64_t operations = probe::argument(argc, argv, 2, 100000);
  static probe::FixedBuffers ring;
  device = &ring;
  std::atomic<bool> done{false};
  std::thread compactor([&] { compact_until(done); });
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < threads; ++i) workers.emplace_back(work, i + 1, operations);
  for (std::thread& worker : workers) worker.join();
  done = true;
  compactor.join();
  if (sent_objects == 0) verdict.broken("nothing was sent");
  printf("%lu sent, %lu broken\n", sent_objects.load(), verdict.count());
  return verdict.status();
}
