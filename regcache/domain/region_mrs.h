// The memory regions (MRs) that a domain registers of the heap's regions: which of them it takes,
// with which rights, and in which pieces. Counts them.
//
// Takes no lock. Any thread that has entered the domain; for one region one at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"
#include "regcache/domain/complaints.h"
#include "regcache/domain/device.h"
#include "regcache/domain/domain_counters.h"
#include "regcache/domain/key_entry.h"
#include "regcache/domain/region_source.h"
#include "regcache/foreign/foreign_cache.h"

namespace rdmalloc {

class RegionMrs {
 public:
  // `shares_heap`: all regions have the remote rights of `access`, not only exposed ones.
  // `exposed_only`: others are not registered.
  struct Rights {
    unsigned access = 0;
    bool shares_heap = false;
    bool exposed_only = false;
  };

  constexpr RegionMrs() = default;
  RegionMrs(const RegionMrs&) = delete;
  RegionMrs& operator=(const RegionMrs&) = delete;

  // Once, before the domain is first opened: others read these without a lock. The registrations of
  // the cache compete with those of regions for the device's MRs.
  void bind(Device* device, Complaints* complaints, const RegionSource* source,
            DomainCounters* counters, const ForeignCache* foreign);
  void open(const Rights& rights) { rights_ = rights; }

  bool is_exposed_only() const { return rights_.exposed_only; }
  bool takes(const Region& region) const;
  // The region's pages must be there before it is registered.
  bool fills(const Region& region) const {
    return takes(region) && !device_->has(RDM_BACKEND_ON_DEMAND);
  }
  // Memory that is paged on demand is not pinned.
  int charges_for(const Region& region) const {
    return region.kind == RegionKind::kPinned ? device_->limits().charges
                                              : int{RDM_CHARGES_NOTHING};
  }
  // As much of the region as the device's alignment allows; 0: none.
  size_t length_of(const Region& region) const {
    return os::align_down(region.length, device_->limits().alignment);
  }
  // In how many pieces the region would be registered now.
  size_t count_pieces(const Region& region) const;
  // Whether foreign memory has some of the device's MRs.
  bool is_crowded() const { return foreign_ != nullptr && foreign_->count() != 0; }
  // `is_apart`: of memory that shares no page with malloc's other objects.
  unsigned access(bool is_apart) const {
    return is_apart || rights_.shares_heap ? rights_.access : rights_.access & ~kRemoteRights;
  }

  bool has_hole(const Region& region, size_t length) const;

  // Registers the region around its holes, and as far as the device's limits allow; then its keys
  // are in the entry. On failure nothing of it is registered.
  int register_region(const Region& region, KeyEntry& entry);

  // Registers what is missing of a region that is registered in part, as far as it can, and adds it
  // to the entry piece by piece. RDM_NOT_REGISTERED: the device still has too few MRs.
  int register_rest(const Region& region, KeyEntry& entry);

  // One MR, which is in no entry yet; `why` is empty or gets a sentence.
  int register_range(const Region& region, size_t offset, size_t length, rdm_backend_key* key,
                     char* why, size_t why_size);
  // RDM_BACKEND_LATER: see Device::deregister_memory().
  int deregister_piece(const Region& region, const Piece& piece, bool may_ask_again);

 private:
  static constexpr unsigned kRemoteRights = RDM_REMOTE_WRITE | RDM_REMOTE_READ | RDM_REMOTE_ATOMIC;

  template <typename Visit>
  void for_each_piece(const Region& region, size_t length, Visit visit) const;
  int register_whole(const Region& region, KeyEntry& entry, size_t length);
  int register_pieces(const Region& region, KeyEntry& entry, size_t length);
  int register_or_say(const Region& region, size_t offset, size_t length, rdm_backend_key* key);
  rdm_backend_request request_for(const Region& region, size_t offset, size_t length) const;

  Device* device_ = nullptr;
  Complaints* complaints_ = nullptr;
  const RegionSource* source_ = nullptr;
  DomainCounters* counters_ = nullptr;
  const ForeignCache* foreign_ = nullptr;
  Rights rights_;
};

}  // namespace rdmalloc
