// How registrations of foreign memory are made: a get that missed on the fast path.
#include <iterator>

#include "allocator/last_error.h"
#include "allocator/os/memory.h"
#include "allocator/os/thread.h"
#include "regcache/foreign/foreign_cache.h"
#include "regcache/lock_order.h"

namespace rdmalloc {

// What one get asks for.
struct ForeignCache::Request : Attempt {
  uintptr_t at = 0;
  size_t length = 0;
  Range wanted{0, 0};
  bool may_widen = true;
  bool may_watch = false;
  bool is_watched = false;  // what is being built is, from its first try on
  // Gives up its place to what is being built, and is ended first.
  CacheEntry* victim = nullptr;
  bool has_ended_victim = false;
  int victim_status = RDM_OK;
  // The gap that the wanted range lies in, as long as reindexed_ has this value.
  Gap gap{};
  uint64_t gap_at = 0;
};

bool ForeignCache::start() {
  if (memo_.is_open()) return true;
  Locked hold(mutex());
  return memo_.is_open() || (policy_.open(settings_.limits) && memo_.open());
}

int ForeignCache::check(Request* request) const {
  if (request->length == 0) return fail(RDM_INVALID, "no bytes are asked for");
  const size_t unit = device_->alignment();
  const uintptr_t last = UINTPTR_MAX - unit;
  if (request->at > last || request->length > last - request->at) {
    return fail(RDM_INVALID, "the range wraps around the end of the address space");
  }
  request->wanted.base = os::align_down(request->at, unit);
  request->wanted.end = os::align_up(request->at + request->length, unit);
  if (request->wanted.length() > device_->max_length()) {
    return fail(RDM_UNSUPPORTED,
                "longer than the device's largest memory region: send it in pieces "
                "(rdm_pieces_begin)");
  }
  if (request->wanted.length() > settings_.limits.bytes) {
    return fail(RDM_OUT_OF_BUDGET,
                "longer than all that may be registered of foreign memory: raise foreign_bytes or "
                "RDMALLOC_FOREIGN_BYTES, or send it in pieces (rdm_pieces_begin)");
  }
  return RDM_OK;
}

// Drops the reference to an entry that turned out to be a different one, or is no longer live.
void ForeignCache::release_touched(uint32_t touched) {
  if (touched != PageMemo::kNone && !policy_.release(policy_.enter(), touched)) {
    (void)settle(&policy_.entry(touched));
  }
}

int ForeignCache::get_slowly(const void* address, size_t length, rdm_mr* out, uint32_t touched) {
  os::NoCancel no_cancel;
  release_touched(touched);
  changes.wait_until_told();
  if (!start()) return fail(RDM_SYSTEM, "no memory for the books of foreign memory");
  (void)policy_.enter();
  Request request;
  request.at = reinterpret_cast<uintptr_t>(address);
  request.length = length;
  // Done now, while no other get waits for this one.
  assert_no_rank();
  assert_linker_may_be_called();
  request.may_watch = monitor_in_force(wish_.load(std::memory_order_relaxed), nullptr).look();
  Locked hold(mutex());
  if (!open_) return fail(RDM_INVALID, kWords.closed);
  if (const int status = check(&request); status != RDM_OK) return status;
  return find_or_build(&request, out);
}

// Unlocks, like everything here that waits or calls the device: the caller must look again.
int ForeignCache::find_or_build(Request* request, rdm_mr* out) {
  for (;;) {
    if (!open_) return fail(RDM_INVALID, kWords.closed);
    const Gap gap = gap_of(request->at);
    if (gap.before != nullptr && gap.before->end() > request->at &&
        gap.before->end() >= request->at + request->length) {
      policy_.reference_locked(*gap.before);
      hand_out(*gap.before, request->at, out);
      ForeignHitCounter::count();
      return RDM_OK;
    }
    const bool is_alone = lies_in(request->wanted, gap);
    request->gap = gap;
    request->gap_at = is_alone ? reindexed_ : 0;
    const Range range = is_alone ? request->wanted : widened(*request);
    // If the lengths differ, the range is a union, and the requested part can be registered alone.
    request->is_optional = range.length() != request->wanted.length();
    if (is_being_built(range)) {
      wait_for_builder();
    } else if (CacheEntry* const entry = admit(request, range.length())) {
      const int status = build(request, range, entry, out);
      if (status == RDM_OK) return status;
      if (request->victim_status != RDM_OK) continue;
      if (!request->is_optional) return fail(status, request->why);
      request->may_widen = false;
    } else if (request->is_optional) {
      request->may_widen = evict_overlapping(range);
    } else if (!request->has_ended_victim && !make_room(request)) {
      return fail(RDM_OUT_OF_BUDGET, kWords.no_room);
    }
  }
}

// What the next hits will look for.
void ForeignCache::hand_out(const CacheEntry& entry, uintptr_t at, rdm_mr* out) {
  fill(entry, out);
  memo_.note(at, policy_.index_of(entry));
  if (entry.begin() != at) memo_.note(entry.begin(), policy_.index_of(entry));
}

ForeignCache::Gap ForeignCache::gap_of(uintptr_t at) {
  CacheEntry* before = nullptr;
  // What the search passes last on its way down is next to what it finds.
  const auto is_after = [&](uintptr_t address, const CacheEntry& entry) {
    if (address < entry.begin()) return true;
    before = &policy_.entry(policy_.index_of(entry));
    return false;
  };
  const auto after = index_.upper_bound(at, is_after);
  return {before, after};
}

bool ForeignCache::lies_in(const Range& range, const Gap& gap) const {
  return (gap.after == index_.end() || gap.after->begin() >= range.end) &&
         (gap.before == nullptr || gap.before->end() <= range.base);
}

CacheEntry* ForeignCache::first_overlapping(const Range& range) {
  auto at = index_.upper_bound(range.base, ByBase());
  if (at != index_.begin()) {
    auto before = at;
    if ((--before)->end() > range.base) at = before;
  }
  return at != index_.end() && at->begin() < range.end ? &*at : nullptr;
}

bool ForeignCache::is_being_built(const Range& range) const {
  for (const CacheEntry& entry : building_) {
    if (entry.begin() < range.end && range.base < entry.end()) return true;
  }
  return false;
}

// The range, extended by all indexed entries that overlap it.
ForeignCache::Range ForeignCache::united(Range range) {
  if (const CacheEntry* const first = first_overlapping(range)) {
    if (first->begin() < range.base) range.base = first->begin();
  }
  const auto after = index_.lower_bound(range.end, ByBase());
  if (after != index_.begin()) {
    auto last = after;
    if ((--last)->end() > range.end) range.end = last->end();
  }
  return range;
}

// The range may stay registered while nobody uses it.
bool ForeignCache::may_stay(const Range& range) const {
  return settings_.limits.leave_pinned && !device_->is_for_users_only(range.base);
}

// The wanted range merged with all kept entries that overlap it, if that fits into one
// registration.
ForeignCache::Range ForeignCache::widened(const Request& request) {
  if (!request.may_widen || !may_stay(request.wanted)) return request.wanted;
  const Range range = united(request.wanted);
  const bool fits =
      range.length() <= device_->max_length() && range.length() <= settings_.limits.bytes;
  return fits ? range : request.wanted;
}

// A place for an entry: a free one, or that of a victim, which is ended in the same step as the
// entry is made, because taking the lock once more costs more than that. Unlocks where it returns
// null.
CacheEntry* ForeignCache::admit(Request* request, size_t length) {
  request->victim = nullptr;
  request->has_ended_victim = false;
  request->victim_status = RDM_OK;
  if (CacheEntry* const entry = policy_.admit(length)) return entry;
  CacheEntry* const victim = request->is_optional || has_idle() ? nullptr : take_victim();
  if (victim == nullptr) return nullptr;
  if (CacheEntry* const entry = policy_.admit_instead_of(victim, length)) {
    request->victim = victim;
    const auto after = request->gap.after;
    const bool is_after = after != index_.end() && &*after == victim;
    if (request->gap_at != 0 && !is_after) request->gap_at = reindexed_;
    return entry;
  }
  request->has_ended_victim = end_unlocked(victim, true);
  return nullptr;
}

int ForeignCache::build(Request* request, const Range& range, CacheEntry* entry, rdm_mr* out) {
  entry->base.store(range.base, std::memory_order_relaxed);
  entry->length.store(range.length(), std::memory_order_relaxed);
  building_.push_back(*entry);
  changes.count_in(range.base, range.end);
  entry->changed = changes.is_announced(range.base, range.end);
  add_locked(misses_, 1);
  request->is_watched = false;
  const int status = make_unlocked(request, entry);
  building_.erase(building_.iterator_to(*entry));
  if (CacheEntry* const victim = request->victim) {
    if (request->victim_status != RDM_OK) policy_.recount(*victim);
    (void)note_ended(victim, request->victim_status);
  }
  if (status == RDM_OK) {
    add_locked(registrations_, 1);
    publish(*request, range, entry);
    hand_out(*entry, request->at, out);
    tell_waiters();
    // The entries that it replaces, if any.
    (void)end_all_idle(true);
    return status;
  }
  changes.count_out(range.base, range.end);
  policy_.remove(*entry);
  tell_waiters();
  if (request->is_watched) {
    mutex().unlock();
    monitor().unwatch(range.base, range.length());
    mutex().lock();
  }
  return status;
}

int ForeignCache::make(CacheEntry& entry, Attempt* attempt) {
  auto* const request = static_cast<Request*>(attempt);
  const size_t length = entry.end() - entry.begin();
  size_t kept = 0;
  if (request->victim != nullptr && !request->has_ended_victim) {
    CacheEntry& victim = *request->victim;
    request->victim_status = end(victim, true, true);
    if (request->victim_status != RDM_OK) return RDM_SYSTEM;
    request->has_ended_victim = true;
    kept = victim.end() - victim.begin();
  }
  if (!request->is_watched && request->may_watch && device_->may_keep(entry.begin(), length)) {
    request->is_watched = monitor().watch(entry.begin(), length);
  }
  char* const why = request->why;
  const size_t why_size = sizeof request->why;
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

// The range is registered. Others may find it only if changes of it will be reported, none has
// happened meanwhile, and it can replace everything that overlaps it.
void ForeignCache::publish(const Request& request, const Range& range, CacheEntry* entry) {
  const bool keeps = may_stay(range);
  const bool is_findable = request.is_watched || device_->is_for_users_only(range.base);
  const bool is_known = request.gap_at == reindexed_;
  Gap gap = is_known ? request.gap : gap_of(range.base);
  const bool is_alone = is_known || lies_in(range, gap);
  const bool replaces = is_alone || (keeps && united(range).length() == range.length());
  EntryState state = keeps ? EntryState::kLive : EntryState::kTransient;
  if (!is_findable || entry->changed || !replaces) state = EntryState::kDoomed;
  if (state == EntryState::kDoomed) {
    changes.count_out(range.base, range.end);
    doomed_.insert(*entry);
  } else {
    if (!is_alone) {
      while (CacheEntry* const other = first_overlapping(range)) doom(other);
      gap = gap_of(range.base);
    }
    if (gap.after == index_.end()) {
      index_.push_back(*entry);  // unlike insert_before(), does not search for the last one
    } else {
      index_.insert_before(gap.after, *entry);
    }

    ++reindexed_;
  }
  policy_.publish(*entry, state);
}

bool ForeignCache::overlaps_what_is_used(const CacheEntry& built) {
  for (const CacheEntry& entry : doomed_) {
    if (entry.begin() < built.end() && built.begin() < entry.end()) return true;
  }
  return first_overlapping({built.begin(), built.end()}) != nullptr;
}

bool ForeignCache::evict_overlapping(const CacheEntry& built) {
  return evict_overlapping(Range{built.begin(), built.end()});
}

bool ForeignCache::evict_overlapping(const Range& range) {
  if (end_all_idle(true)) return true;
  CacheEntry* const first = first_overlapping(range);
  if (first == nullptr) return false;
  bool evicted = false;
  for (auto at = index_.iterator_to(*first); at != index_.end() && at->begin() < range.end;) {
    CacheEntry& entry = *at++;
    if (!doom_if_idle(&entry)) continue;
    add_locked(evictions_, 1);
    evicted = true;
  }
  (void)end_all_idle(true);
  return evicted;
}

}  // namespace rdmalloc
