// What keeping foreign memory registered costs programs that map and unmap memory, and what the
// first get of a buffer costs.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <vector>

#include "allocator/os/system_call.h"
#include "bench/workloads/caches.h"
#include "bench/workloads/meter.h"
#include "bench/workloads/turns.h"

namespace rdmalloc::bench {
namespace {

constexpr size_t kLength = size_t{64} << 10;
constexpr size_t kPage = 4096;
constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Bypasses the library and all hooks, but in a function, like libc's: a return after a system call
// may cost a hundred nanoseconds.
[[gnu::noinline]] char* raw_map(size_t length, int more_flags = 0) {
  const long address = os::system_call(SYS_mmap, 0, static_cast<long>(length),
                                       PROT_READ | PROT_WRITE, kFlags | more_flags, -1, 0);
  return reinterpret_cast<char*>(address);
}

[[gnu::noinline]] int raw_unmap(void* address, size_t length) {
  return static_cast<int>(
      os::system_call(SYS_munmap, os::word(address), static_cast<long>(length)));
}

void* called_map(size_t length) {
  return mmap(nullptr, length, PROT_READ | PROT_WRITE, kFlags, -1, 0);
}

// With a page between buffers.
std::vector<char*> map_buffers(size_t count, int more_flags = 0) {
  std::vector<char*> buffers;
  for (size_t i = 0; i < count; ++i) buffers.push_back(raw_map(kLength + kPage, more_flags));
  return buffers;
}

}  // namespace

// mmap and munmap of 64 KiB that nobody registered, in a process with arguments.bytes other
// buffers; then munmap of registered buffers.
void run_unmap(const Arguments& arguments, Meter& meter) {
  enum { kRaw, kUnmap, kBoth, kRegistered, kOther };
  constexpr size_t kPairs = 1000;
  constexpr size_t kBatch = 128;
  const auto cache = cache_on_free_device(arguments.kind);
  for (char* buffer : map_buffers(arguments.bytes)) cache->get_and_put(buffer, kLength);
  Turns turns({"raw", "unmap", "both", "registered", "other"});
  const auto pairs_of = [&](size_t side) {
    switch (side) {
      case kRaw:
        return turns.time(side, kPairs, [&] {
          for (size_t i = 0; i < kPairs; ++i) raw_unmap(raw_map(kLength), kLength);
        });
      case kUnmap:
        return turns.time(side, kPairs, [&] {
          for (size_t i = 0; i < kPairs; ++i) munmap(raw_map(kLength), kLength);
        });
      default:
        return turns.time(side, kPairs, [&] {
          for (size_t i = 0; i < kPairs; ++i) munmap(called_map(kLength), kLength);
        });
    }
  };
  meter.start();
  for (size_t round = 0; round < arguments.repeat(60); ++round) {
    for (size_t i = 0; i < kRegistered; ++i) pairs_of((i + round) % kRegistered);
  }
  // Without buffers, nothing is to be registered at all.
  for (size_t round = 0; arguments.bytes != 0 && round < arguments.repeat(50); ++round) {
    const std::vector<char*> registered = map_buffers(kBatch);
    const std::vector<char*> others = map_buffers(kBatch);
    for (char* buffer : registered) cache->get_and_put(buffer, kLength);
    turns.time(kRegistered, kBatch, [&] {
      for (char* buffer : registered) munmap(buffer, kLength + kPage);
    });
    turns.time(kOther, kBatch, [&] {
      for (char* buffer : others) raw_unmap(buffer, kLength + kPage);
    });
  }
  meter.stop();
  turns.report_all();
  report_monitor();
}

// The first get of a 64 KiB buffer with its put, and the munmap that ends its registration, against
// bare io_uring registration and deregistration, the latter plus a system call. The pages are
// present.
void run_miss(const Arguments& arguments, Meter& meter) {
  enum { kGet, kForget, kAdd, kRemove };
  constexpr size_t kBatch = 128;
  const auto cache = cache_on_io_uring(arguments.kind);
  Ring ring;
  ring.make_table(kBatch);
  Turns turns({"get", "forget", "add", "remove"});
  const auto ours = [&](const std::vector<char*>& buffers) {
    turns.time(kGet, kBatch, [&] {
      for (char* buffer : buffers) cache->get_and_put(buffer, kLength);
    });
    turns.time(kForget, kBatch, [&] {
      for (char* buffer : buffers) munmap(buffer, kLength + kPage);
    });
  };
  const auto bare = [&](const std::vector<char*>& buffers) {
    turns.time(kAdd, kBatch, [&] {
      for (uint32_t key = 0; key < kBatch; ++key) ring.add(key, buffers[key], kLength);
    });
    turns.time(kRemove, kBatch, [&] {
      for (uint32_t key = 0; key < kBatch; ++key) {
        ring.remove(key);
        raw_unmap(buffers[key], kLength + kPage);
      }
    });
  };
  meter.start();
  for (size_t round = 0; round < arguments.repeat(30); ++round) {
    const std::vector<char*> first = map_buffers(kBatch, MAP_POPULATE);
    const std::vector<char*> second = map_buffers(kBatch, MAP_POPULATE);
    if (round % 2 == 0) {
      ours(first);
      bare(second);
    } else {
      bare(first);
      ours(second);
    }
  }
  meter.stop();
  turns.report_all();
  report_monitor();
}

}  // namespace rdmalloc::bench
