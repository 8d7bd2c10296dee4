#include "regcache/foreign/cache_core.h"

#include "allocator/last_error.h"
#include "allocator/os/thread.h"

namespace rdmalloc {

void CacheCore::open(const CacheWaits& waits) {
  maker_.open(waits);
  open_ = true;
}

int CacheCore::close(uint32_t* users) {
  *users = static_cast<uint32_t>(table_.doomed().size() + table_.building().size());
  for (auto next = table_.index().begin(); next != table_.index().end();) {
    CacheEntry& entry = *next++;
    *users += ender_.doom_if_idle(&entry) ? 0 : 1;
  }
  open_ = *users != 0;
  const bool busy = open_;
  ender_.end_all_idle(true);
  if (busy) return RDM_BUSY;
  return ender_.end_everything() ? RDM_OK : RDM_SYSTEM;
}

int CacheCore::put(CacheEntry* entry) {
  if (entry == nullptr) return fail(RDM_INVALID, words_.not_out);
  CacheEntries& entries = table_.policy().entries();
  const bool is_over = entries.release(entries.enter(), entries.index_of(*entry));
  return is_over ? RDM_OK : end_release_locked(entry);
}

int CacheCore::end_release(CacheEntry* entry) {
  if (table_.policy().entries().is_release_over(*entry)) return RDM_OK;
  os::NoCancel no_cancel;
  Locked hold(mutex());
  return end_release_locked(entry);
}

int CacheCore::end_release_locked(CacheEntry* entry) {
  if (table_.policy().entries().restore(*entry)) return fail(RDM_INVALID, words_.put_too_often);
  ender_.end_unused(entry);
  return RDM_OK;
}

void CacheCore::forget_all() {
  news_.note_fork_child();
  ender_.clear();
  table_.clear();
  open_ = false;
}

bool CacheCore::validate() const {
  if (!table_.policy().entries().is_open()) return table_.index().empty();
  return table_.count() + ender_.count() == table_.policy().account().count() &&
         table_.policy().validate();
}

}  // namespace rdmalloc
