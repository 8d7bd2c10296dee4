// Keys of a domain that are held until their user lets go of them, so that registrations nobody
// uses can be given back when a registration of the program's own lacks room: see held_keys.h.
//
// Takes no lock. Any thread, once the domain is open; not inside malloc. A region is given back
// once its count of uses is closed (KeyUses) and its entry is claimed (kBusy).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/region_table.h"
#include "include/rdmalloc/backend.h"
#include "regcache/domain/key_uses.h"

namespace rdmalloc {

class Domain;

class KeyHolds {
 public:
  constexpr KeyHolds() = default;
  KeyHolds(const KeyHolds&) = delete;
  KeyHolds& operator=(const KeyHolds&) = delete;

  // Once, before the domain is first opened.
  void bind(Domain* domain) { domain_ = domain; }
  // The domain is being opened, and nobody holds a key. False: there is no memory.
  bool open(const RegionTable& regions);

  // A lookup whose key stays registered until let_go(*use), unless its region loses its pages. A
  // hit takes no lock and makes no system call. RDM_NOT_REGISTERED while the region is being given
  // back. The domain has no other lookups.
  int hold(const void* address, size_t length, rdm_mr* out, uint32_t* use);
  void let_go(uint32_t use) { uses_.end(use); }

  // About how many registered bytes nobody holds a key of; 0 if hold() was never called.
  size_t unused_bytes() const;
  // Deregisters this many of these bytes, or all of them, and returns how many. They are registered
  // again when they are next asked for. Calls the backend, and waits only for the registrar, if
  // that is working on one of them; only the regions that go are marked as busy.
  size_t give_back(size_t bytes);

 private:
  bool is_unused(const Region& region) const;
  size_t unused_bytes(const Region& region) const;
  size_t give_back_region(const Region& region);

  Domain* domain_ = nullptr;
  KeyUses uses_;
  std::atomic<bool> counts_uses_{false};  // since the domain was opened
};

}  // namespace rdmalloc
