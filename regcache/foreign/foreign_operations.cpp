#include "regcache/foreign/foreign_operations.h"

#include "allocator/last_error.h"
#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/monitor.h"

namespace rdmalloc {

int ForeignOperations::make(CacheEntry& entry, CacheAttempt* attempt) {
  auto* const own = static_cast<ForeignAttempt*>(attempt);
  const size_t length = entry.end() - entry.begin();
  size_t kept = 0;
  if (own->victim != nullptr && !own->has_ended_victim) {
    CacheEntry& victim = *own->victim;
    own->victim_status = end(victim, true, true);
    if (own->victim_status != RDM_OK) return RDM_SYSTEM;
    own->has_ended_victim = true;
    kept = victim.end() - victim.begin();
  }
  if (!own->is_watched && own->may_watch && device_->may_keep(entry.begin(), length)) {
    own->is_watched = monitor_started().watch(entry.begin(), length);
  }
  char* const why = own->why;
  const size_t why_size = sizeof own->why;
  rdm_backend_key key{};
  const int status = device_->register_foreign(entry.begin(), length, kept, &key, why, why_size);
  if (status == RDM_OK) entry.set_key(key);
  if (status == RDM_BACKEND_LATER && device_->may_run_in_malloc()) {
    return fail(RDM_UNSUPPORTED,
                "the device takes no registrations from this thread (a ring set up for a single "
                "issuer): call rdm_get in the thread that opened the domain",
                why, why_size);
  }
  return status;
}

void ForeignOperations::note_unindexed(CacheEntry& entry) {
  changes.counts().count_out(entry.begin(), entry.end());
}

// Inside malloc, monitors may not run either.
int ForeignOperations::end(CacheEntry& entry, bool may_wait, bool keeps_room) {
  const size_t length = entry.end() - entry.begin();
  const int status = device_->deregister_foreign(length, entry.key(), keeps_room);
  if (may_wait) monitor_started().unwatch(entry.begin(), length);
  return status;
}

bool ForeignOperations::overlaps_what_is_used(const CacheEntry& built) {
  const EntryRange range = EntryRange::of(built);
  for (const CacheEntry& entry : table_.doomed()) {
    if (range.overlaps(entry)) return true;
  }
  return first_overlapping(table_, range) != nullptr;
}

bool ForeignOperations::evict_overlapping(const EntryRange& range) {
  if (ender_.end_all_idle(true)) return true;
  CacheEntry* const first = first_overlapping(table_, range);
  if (first == nullptr) return false;
  bool evicted = false;
  EntriesByBase& index = table_.index();
  for (auto at = index.iterator_to(*first); at != index.end() && at->begin() < range.end;) {
    CacheEntry& entry = *at++;
    if (!ender_.doom_if_idle(&entry)) continue;
    add_locked(table_.counters().evictions, 1);
    evicted = true;
  }
  (void)ender_.end_all_idle(true);
  return evicted;
}

}  // namespace rdmalloc
