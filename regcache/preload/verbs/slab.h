// The memory regions that the shim hands out: a struct ibv_mr for each call that was answered,
// in one range of addresses, so that a pointer is known as ours by comparing it.
//
// All functions may be called from any thread; none takes a lock, so a child of fork can go on with
// what it inherited.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdmalloc::shim {

struct DomainEntry;

// Begins like libibverbs' private struct verbs_mr. Drivers look at that, and at fields of their own
// behind it, when a memory window is bound to a memory region: zeros there mean an ordinary one.
struct AnsweredMr {
  ibv_mr mr;
  int type;  // ibv_mr_type: 0 is IBV_MR_TYPE_MR
  int access;
  unsigned char driver[168];
  DomainEntry* entry;  // the domain that answered; null with a registration of its own
  ibv_mr* own;         // that registration, after ibv_rereg_mr; else null
  std::atomic<uint32_t> live;
  std::atomic<uint32_t> next;  // while free: index + 1 of the next free one
  uint32_t use;                // of a key of the domain's: rdm_shim_let_go
};
static_assert(sizeof(AnsweredMr) == 256 && offsetof(AnsweredMr, mr) == 0);
static_assert(offsetof(AnsweredMr, type) == sizeof(ibv_mr));

class MrSlab {
 public:
  constexpr MrSlab() = default;
  MrSlab(const MrSlab&) = delete;
  MrSlab& operator=(const MrSlab&) = delete;

  // Zeroed but for `live`; null when all are taken.
  AnsweredMr* take();

  // Null when the pointer is not one of ours.
  AnsweredMr* find(const ibv_mr* mr) const {
    const uintptr_t range = range_.load(std::memory_order_acquire);
    const uintptr_t offset = reinterpret_cast<uintptr_t>(mr) - base_of(range);
    if (offset >= size_of(range) || offset % sizeof(AnsweredMr) != 0) return nullptr;
    return reinterpret_cast<AnsweredMr*>(const_cast<ibv_mr*>(mr));
  }

  // Claims a record that is to be given back, so that only one of two threads or calls gets it.
  static bool claim(AnsweredMr* record) { return record->live.exchange(0) == 1; }
  void give_back(AnsweredMr* record);

 private:
  // Base and size in one word, since they are published together: the base is page-aligned, and
  // below it stands the binary logarithm of the size; 0: no range yet.
  static constexpr uintptr_t kSizeMask = 63;
  static uintptr_t base_of(uintptr_t range) { return range & ~kSizeMask; }
  static size_t size_of(uintptr_t range) { return (size_t{1} << (range & kSizeMask)) & ~size_t{1}; }

  uintptr_t reserve();
  AnsweredMr* at(uintptr_t range, uint32_t index) const {
    return reinterpret_cast<AnsweredMr*>(base_of(range)) + index;
  }
  AnsweredMr* pop(uintptr_t range);

  std::atomic<uintptr_t> range_{0};
  std::atomic<uint32_t> used_{0};  // from the start of the range
  // Index + 1 of the first free one, and a count in the upper half, which tells a head that came
  // back from one that stayed (ABA).
  std::atomic<uint64_t> free_{0};
};

}  // namespace rdmalloc::shim
