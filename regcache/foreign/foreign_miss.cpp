#include "regcache/foreign/foreign_miss.h"

#include "allocator/last_error.h"
#include "allocator/os/memory.h"
#include "regcache/foreign/entry_mr.h"
#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/monitor.h"

namespace rdmalloc {

ForeignMiss::ForeignMiss(CacheCore& core, ForeignOperations& operations, PageMemo& memo,
                         bool may_watch)
    : core_(core),
      table_(core.table()),
      policy_(core.table().policy()),
      ender_(core.ender()),
      operations_(operations),
      memo_(memo) {
  attempt_.may_watch = may_watch;
}

int ForeignMiss::get(uintptr_t at, size_t length, rdm_mr* out) {
  at_ = at;
  length_ = length;
  if (!core_.is_open()) return fail(RDM_INVALID, core_.words().closed);
  if (const int status = check(); status != RDM_OK) return status;
  return find_or_build(out);
}

int ForeignMiss::check() {
  if (length_ == 0) return fail(RDM_INVALID, "no bytes are asked for");
  const size_t unit = operations_.device().alignment();
  const uintptr_t last = UINTPTR_MAX - unit;
  if (at_ > last || length_ > last - at_) {
    return fail(RDM_INVALID, "the range wraps around the end of the address space");
  }
  wanted_.base = os::align_down(at_, unit);
  wanted_.end = os::align_up(at_ + length_, unit);
  if (wanted_.length() > operations_.device().max_length()) {
    return fail(RDM_UNSUPPORTED,
                "longer than the device's largest memory region: send it in pieces "
                "(rdm_pieces_begin)");
  }
  if (wanted_.length() > policy_.account().limits().bytes) {
    return fail(RDM_OUT_OF_BUDGET,
                "longer than all that may be registered of foreign memory: raise foreign_bytes or "
                "RDMALLOC_FOREIGN_BYTES, or send it in pieces (rdm_pieces_begin)");
  }
  return RDM_OK;
}

int ForeignMiss::find_or_build(rdm_mr* out) {
  for (;;) {
    if (!core_.is_open()) return fail(RDM_INVALID, core_.words().closed);
    const EntryGap gap = gap_of(table_, at_);
    if (gap.before != nullptr && gap.before->end() > at_ && gap.before->end() >= at_ + length_) {
      policy_.reference_locked(*gap.before);
      hand_out(*gap.before, out);
      ForeignHitCounter::count();
      return RDM_OK;
    }
    const bool is_alone = lies_in(table_, wanted_, gap);
    gap_ = gap;
    gap_at_ = is_alone ? table_.reindexed() : 0;
    const EntryRange range = is_alone ? wanted_ : widened();
    // If the lengths differ, the range is a union, and the requested part can be registered alone.
    attempt_.is_optional = range.length() != wanted_.length();
    if (is_being_built(table_, range)) {
      core_.news().wait();
    } else if (CacheEntry* const entry = admit(range.length())) {
      const int status = build(range, entry, out);
      if (status == RDM_OK) return status;
      if (attempt_.victim_status != RDM_OK) continue;
      if (!attempt_.is_optional) return fail(status, attempt_.why);
      may_widen_ = false;
    } else if (attempt_.is_optional) {
      may_widen_ = operations_.evict_overlapping(range);
    } else if (!attempt_.has_ended_victim && !core_.maker().make_room(&attempt_)) {
      return fail(RDM_OUT_OF_BUDGET, core_.words().no_room);
    }
  }
}

// What the next hits will look for.
void ForeignMiss::hand_out(const CacheEntry& entry, rdm_mr* out) {
  fill(entry, out);
  const uint32_t index = policy_.entries().index_of(entry);
  memo_.note(at_, index);
  if (entry.begin() != at_) memo_.note(entry.begin(), index);
}

// The range may stay registered while nobody uses it.
bool ForeignMiss::may_stay(const EntryRange& range) const {
  return policy_.account().limits().leave_pinned &&
         !operations_.device().is_for_users_only(range.base);
}

// The wanted range merged with all kept entries that overlap it, if that fits into one
// registration.
EntryRange ForeignMiss::widened() {
  if (!may_widen_ || !may_stay(wanted_)) return wanted_;
  const EntryRange range = united(table_, wanted_);
  const bool fits = range.length() <= operations_.device().max_length() &&
                    range.length() <= policy_.account().limits().bytes;
  return fits ? range : wanted_;
}

// A place for an entry: a free one, or that of a victim, which is ended in the same step as the
// entry is made, because taking the lock once more costs more than that. Unlocks where it returns
// null.
CacheEntry* ForeignMiss::admit(size_t length) {
  attempt_.victim = nullptr;
  attempt_.has_ended_victim = false;
  attempt_.victim_status = RDM_OK;
  if (CacheEntry* const entry = policy_.admit(length)) return entry;
  CacheEntry* const victim =
      attempt_.is_optional || !ender_.idle().is_empty() ? nullptr : ender_.take_victim();
  if (victim == nullptr) return nullptr;
  if (CacheEntry* const entry = policy_.admit_instead_of(victim, length)) {
    attempt_.victim = victim;
    const auto after = gap_.after;
    const bool is_after = after != table_.index().end() && &*after == victim;
    if (gap_at_ != 0 && !is_after) gap_at_ = table_.reindexed();
    return entry;
  }
  attempt_.has_ended_victim = ender_.end(victim, true);
  return nullptr;
}

int ForeignMiss::build(const EntryRange& range, CacheEntry* entry, rdm_mr* out) {
  entry->base.store(range.base, std::memory_order_relaxed);
  entry->length.store(range.length(), std::memory_order_relaxed);
  table_.building().push_back(*entry);
  changes.counts().count_in(range.base, range.end);
  entry->changed = changes.announcements().has_any_of(range.base, range.end);
  add_locked(table_.counters().misses, 1);
  attempt_.is_watched = false;
  const int status = core_.maker().make(&attempt_, entry);
  table_.building().erase(table_.building().iterator_to(*entry));
  if (CacheEntry* const victim = attempt_.victim) {
    if (attempt_.victim_status != RDM_OK) policy_.recount(*victim);
    (void)ender_.note_ended(victim, attempt_.victim_status);
  }
  if (status == RDM_OK) {
    add_locked(table_.counters().registrations, 1);
    publish(range, entry);
    hand_out(*entry, out);
    core_.news().tell();
    // The entries that it replaces, if any.
    (void)ender_.end_all_idle(true);
    return status;
  }
  changes.counts().count_out(range.base, range.end);
  policy_.remove(*entry);
  core_.news().tell();
  if (attempt_.is_watched) {
    core_.mutex().unlock();
    monitor_started().unwatch(range.base, range.length());
    core_.mutex().lock();
  }
  return status;
}

// The range is registered. Others may find it only if changes of it will be reported, none has
// happened meanwhile, and it can replace everything that overlaps it.
void ForeignMiss::publish(const EntryRange& range, CacheEntry* entry) {
  const bool keeps = may_stay(range);
  const bool is_findable =
      attempt_.is_watched || operations_.device().is_for_users_only(range.base);
  const bool is_known = gap_at_ == table_.reindexed();
  EntryGap gap = is_known ? gap_ : gap_of(table_, range.base);
  const bool is_alone = is_known || lies_in(table_, range, gap);
  const bool replaces = is_alone || (keeps && united(table_, range).length() == range.length());
  EntryState state = keeps ? EntryState::kLive : EntryState::kTransient;
  if (!is_findable || entry->changed || !replaces) state = EntryState::kDoomed;
  if (state == EntryState::kDoomed) {
    changes.counts().count_out(range.base, range.end);
    table_.doomed().insert(*entry);
  } else {
    if (!is_alone) {
      while (CacheEntry* const other = first_overlapping(table_, range)) ender_.doom(other);
      gap = gap_of(table_, range.base);
    }
    table_.insert_before(gap.after, *entry);
  }
  policy_.publish(*entry, state);
}

}  // namespace rdmalloc
