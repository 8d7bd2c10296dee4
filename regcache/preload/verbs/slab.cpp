#include "regcache/preload/verbs/slab.h"

#include <errno.h>
#include <sys/mman.h>

namespace rdmalloc::shim {
namespace {

// Reserves addresses only: pages are allocated as records are used, and stay.
constexpr unsigned kLargestShift = 30;
constexpr unsigned kSmallestShift = 20;

}  // namespace

// If RLIMIT_AS or a kernel without overcommit prevents this, tries smaller ranges. Of concurrent
// threads, one publishes its range. 0: there is no memory.
uintptr_t MrSlab::reserve() {
  const int keep = errno;
  void* got = MAP_FAILED;
  unsigned shift = kLargestShift + 1;
  while (got == MAP_FAILED && shift > kSmallestShift) {
    --shift;
    got = mmap(nullptr, size_t{1} << shift, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  errno = keep;
  if (got == MAP_FAILED) return range_.load(std::memory_order_acquire);
  const uintptr_t range = reinterpret_cast<uintptr_t>(got) | shift;
  uintptr_t found = 0;
  if (range_.compare_exchange_strong(found, range, std::memory_order_acq_rel)) return range;
  munmap(got, size_t{1} << shift);
  return found;
}

AnsweredMr* MrSlab::pop(uintptr_t range) {
  uint64_t head = free_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    AnsweredMr* first = at(range, static_cast<uint32_t>(head) - 1);
    // May read a value that another thread is writing after taking the record; the exchange then
    // fails.
    const uint32_t next = first->next.load(std::memory_order_relaxed);
    const uint64_t changed = ((head >> 32) + 1) << 32 | next;
    if (free_.compare_exchange_weak(head, changed, std::memory_order_acq_rel)) return first;
  }
  return nullptr;
}

AnsweredMr* MrSlab::take() {
  uintptr_t range = range_.load(std::memory_order_acquire);
  if (range == 0 && (range = reserve()) == 0) return nullptr;
  AnsweredMr* record = pop(range);
  if (record == nullptr) {
    const auto count = static_cast<uint32_t>(size_of(range) / sizeof(AnsweredMr));
    uint32_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used >= count) return nullptr;
    } while (!used_.compare_exchange_weak(used, used + 1, std::memory_order_relaxed));
    record = at(range, used);
  }
  record->live.store(1, std::memory_order_relaxed);
  return record;
}

void MrSlab::give_back(AnsweredMr* record) {
  // Keys that are used after deregistration should fail, not refer to another region.
  record->mr = {};
  record->entry = nullptr;
  record->own = nullptr;
  const auto index = static_cast<uint32_t>(record - at(range_.load(std::memory_order_relaxed), 0));
  uint64_t head = free_.load(std::memory_order_relaxed);
  uint64_t changed = 0;
  do {
    record->next.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    changed = ((head >> 32) + 1) << 32 | (index + 1);
  } while (!free_.compare_exchange_weak(head, changed, std::memory_order_acq_rel));
}

}  // namespace rdmalloc::shim
