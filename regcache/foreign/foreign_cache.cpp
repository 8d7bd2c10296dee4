// How registrations of foreign memory end: after their last use, on changes, and at close.
#include "regcache/foreign/foreign_cache.h"

#include "allocator/breakage.h"
#include "allocator/last_error.h"
#include "allocator/os/thread.h"

namespace rdmalloc {

constinit const CacheWords ForeignCache::kWords = {
    "the domain is closed",
    "all foreign memory that may be registered is in use: rdm_put some, raise foreign_bytes, "
    "foreign_count or RLIMIT_MEMLOCK, or set foreign_wait_ms",
    "some of it is registered with this device already, which registers memory only once, and is "
    "in use: put that first",
    "this memory region is not in use: it was put already, or comes from another domain; pass what "
    "rdm_get returned, once",
    "rdm_put was called more often than rdm_get for this memory region"};

void ForeignCache::open(const ForeignSettings& settings, ForeignDevice* device) {
  Locked hold(mutex());
  settings_ = settings;
  wish_.store(settings.wish, std::memory_order_relaxed);
  device_ = device;
  if (policy_.is_open()) (void)policy_.open(settings_.limits);
  open_core(settings.wait_ms);
}

int ForeignCache::close(uint32_t* users) {
  os::NoCancel no_cancel;
  Locked hold(mutex());
  return close_core(users);
}

void ForeignCache::note_unindexed(CacheEntry& entry) {
  changes.count_out(entry.begin(), entry.end());
}

// Inside malloc, monitors may not run either.
int ForeignCache::end(CacheEntry& entry, bool may_wait, bool keeps_room) {
  const size_t length = entry.end() - entry.begin();
  const int status = device_->deregister_foreign(length, entry.key(), keeps_room);
  if (may_wait) monitor().unwatch(entry.begin(), length);
  return status;
}

bool ForeignCache::deregister_idle() {
  os::NoCancel no_cancel;
  Locked hold(mutex());
  end_all_idle(true);
  return !has_idle();
}

void ForeignCache::on_change(uintptr_t base, uintptr_t end) {
  Locked hold(mutex());
  if (!open_) return;
  const Range range{base, end};
  while (CacheEntry* const entry = first_overlapping(range)) {
    if (RDM_BROKEN(stale_entry_stays)) break;
    add_locked(invalidations_, 1);
    doom(entry);
  }
  for (CacheEntry& entry : building_) {
    if (entry.begin() < end && base < entry.end()) entry.changed = true;
  }
  if (!has_idle()) return;
  if (device_->may_run_in_malloc()) {
    end_all_idle(false);
  } else {
    device_->put_off();
  }
}

bool ForeignCache::is_cached(uintptr_t base, uintptr_t end) {
  Locked hold(mutex());
  const Range range{base, end};
  return open_ && (first_overlapping(range) != nullptr || is_being_built(range));
}

bool ForeignCache::give_up(size_t wanted) {
  os::NoCancel no_cancel;
  Locked hold(mutex());
  if (!open_) return false;
  const uint64_t before = bytes();
  const uint64_t goal = before > wanted ? before - wanted : 0;
  bool gave = end_all_idle(true);
  while (bytes() > goal && evict_one()) gave = true;
  return gave;
}

bool ForeignCache::give_up_count(size_t wanted) {
  os::NoCancel no_cancel;
  Locked hold(mutex());
  if (!open_ || count_idle(UINT64_MAX, wanted).count < wanted) return false;
  const size_t goal = count() - wanted;
  (void)end_all_idle(true);
  while (count() > goal && evict_one()) {
  }
  return true;
}

uint64_t ForeignCache::idle_bytes(uint64_t enough) {
  Locked hold(mutex());
  return open_ ? count_idle(enough, SIZE_MAX).bytes : 0;
}

size_t ForeignCache::idle_count(size_t enough) {
  Locked hold(mutex());
  return open_ ? count_idle(UINT64_MAX, enough).count : 0;
}

int ForeignCache::put_slowly(const rdm_mr& mr, uint32_t touched) {
  if (touched != PageMemo::kNone) return settle(&policy_.entry(touched));
  os::NoCancel no_cancel;
  Locked hold(mutex());
  const auto is_it = [&](const CacheEntry& entry) { return is_of(entry, mr); };
  CacheEntry* const entry =
      open_ ? find_in_use(reinterpret_cast<uintptr_t>(mr.base), is_it) : nullptr;
  if (entry != nullptr) memo_.note(entry->begin(), policy_.index_of(*entry));
  return put_in_use(entry);
}

void ForeignCache::note_fork_child() { forget_all(); }

bool ForeignCache::validate() {
  Locked hold(mutex());
  uintptr_t end = 0;
  for (const CacheEntry& entry : index_) {
    if (entry.begin() < end || entry.end() <= entry.begin()) return false;
    end = entry.end();
  }
  return validate_core();
}

}  // namespace rdmalloc
