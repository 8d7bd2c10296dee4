#include "regcache/foreign/remote_cache.h"

#include <stdio.h>

#include "allocator/last_error.h"
#include "allocator/os/thread.h"
#include "include/rdmalloc/backend.h"

namespace rdmalloc {
namespace {

constexpr CacheWords kRemoteWords = {
    "the cache is closed",
    "all handles that may be open are in use: rdm_remote_put some, raise bytes or count, or set "
    "wait_ms",
    "memory of that peer that overlaps this is open and in use, and cannot be open twice: put that "
    "first",
    "no such mapping is out: it was put already, or comes from another cache; pass what "
    "rdm_remote_get returned, once",
    "rdm_remote_put was called more often than rdm_remote_get for this mapping"};

void fill(const CacheEntry& entry, rdm_remote_mapping* out) {
  out->address = reinterpret_cast<void*>(entry.begin());
  out->length = entry.end() - entry.begin();
}

int check(const rdm_remote_memory& memory) {
  if (memory.length == 0) return fail(RDM_INVALID, "no bytes are asked for");
  if (memory.length > UINT64_MAX - memory.base) {
    return fail(RDM_INVALID, "the memory wraps around the end of the peer's address space");
  }
  if (memory.handle == nullptr || memory.handle_size == 0) {
    return fail(RDM_INVALID, "there is no handle: pass what the peer exported");
  }
  if (memory.handle_size > RDM_REMOTE_MAX_HANDLE) {
    return fail(RDM_INVALID, "the handle is longer than RDM_REMOTE_MAX_HANDLE");
  }
  return RDM_OK;
}

bool is_being_built(const CacheTable& table, const RemoteIndex& index, const RemoteOrigin& range)
    REQUIRES(cache_lock) {
  for (const CacheEntry& entry : table.building()) {
    if (index.origin_of(entry).overlaps(range)) return true;
  }
  return false;
}

// The peer has freed the memory.
bool doom_overlapping(EntryEnder& ender, RemoteIndex& index, const RemoteOrigin& range)
    REQUIRES(cache_lock) {
  bool any = false;
  while (CacheEntry* const old = index.first_overlapping(range)) {
    ender.doom(old);
    any = true;
  }
  return any;
}

}  // namespace

RemoteCache::RemoteCache() : core_(kRemoteWords, *this), index_(core_.table().policy().entries()) {}

bool RemoteCache::open(const rdm_remote_operations& operations, void* context,
                       const RemoteSettings& settings) {
  Locked hold(core_.mutex());
  if (!index_.open()) return false;
  table().policy().clear();
  if (!table().policy().open(settings.limits)) return false;
  operations_ = operations;
  context_ = context;
  hits_ = 0;
  table().counters().misses = 0;
  table().counters().evictions = 0;
  core_.open({settings.wait_ms});
  phase_.store(Phase::kOpen, std::memory_order_release);
  return true;
}

int RemoteCache::close() {
  os::NoCancel no_cancel;
  const bool forked = phase_.load(std::memory_order_acquire) == Phase::kForked;
  int status = RDM_OK;
  if (!forked) {
    Locked hold(core_.mutex());
    if (!core_.is_open()) return fail(RDM_INVALID, kRemoteWords.closed);
    uint32_t users = 0;
    status = core_.close(&users);
    if (status == RDM_BUSY) {
      char sentence[kLongestError];
      snprintf(sentence, sizeof sentence,
               "%u opened handles are in use: rdm_remote_put each as often as rdm_remote_get "
               "returned it, then close the cache",
               users);
      return fail(status, sentence);
    }
  }
  if (operations_.closed != nullptr) operations_.closed(context_, forked ? 1 : 0);
  phase_.store(Phase::kFree, std::memory_order_release);
  return status == RDM_OK ? status
                          : fail(status, "some opened handles could not be closed, and are lost");
}

int RemoteCache::refuse_forked() const {
  if (phase_.load(std::memory_order_acquire) != Phase::kForked) return RDM_OK;
  return fail(RDM_INVALID,
              "the cache is the parent's: close it here, and open one in this process");
}

int RemoteCache::get(const rdm_remote_memory& memory, rdm_remote_mapping* out) {
  os::NoCancel no_cancel;
  if (const int status = refuse_forked(); status != RDM_OK) return status;
  if (const int status = check(memory); status != RDM_OK) return status;
  Locked hold(core_.mutex());
  return find_or_open(memory, out);
}

// Unlocks.
int RemoteCache::find_or_open(const rdm_remote_memory& memory, rdm_remote_mapping* out) {
  const RemoteOrigin range = RemoteOrigin::of(memory);
  CacheAttempt attempt;
  for (;;) {
    if (!core_.is_open()) return fail(RDM_INVALID, kRemoteWords.closed);
    if (range.length > table().policy().account().limits().bytes) {
      return fail(RDM_OUT_OF_BUDGET,
                  "longer than all that may be open in this cache: raise its option bytes");
    }
    CacheEntry* const known = index_.first_overlapping(range);
    if (known != nullptr && index_.origin_of(*known).is_of(memory)) {
      table().policy().reference_locked(*known);
      fill(*known, out);
      ++hits_;
      return RDM_OK;
    }
    if (is_being_built(table(), index_, range)) {
      core_.news().wait();
    } else if (doom_overlapping(core_.ender(), index_, range)) {
      core_.ender().end_all_idle(true);
    } else if (CacheEntry* const entry = table().policy().admit(range.length)) {
      const int status = build(range, &attempt, entry);
      if (status == RDM_OK) fill(*entry, out);
      return status == RDM_OK ? status : fail(status, attempt.why);
    } else if (!core_.maker().make_room(&attempt)) {
      return fail(RDM_OUT_OF_BUDGET, kRemoteWords.no_room);
    }
  }
}

int RemoteCache::build(const RemoteOrigin& range, CacheAttempt* attempt, CacheEntry* entry) {
  index_.set_origin(*entry, range);
  entry->base.store(0, std::memory_order_relaxed);
  entry->length.store(range.length, std::memory_order_relaxed);
  table().building().push_back(*entry);
  add_locked(table().counters().misses, 1);
  const int status = core_.maker().make(attempt, entry);
  table().building().erase(table().building().iterator_to(*entry));
  if (status == RDM_OK) {
    entry->base.store(reinterpret_cast<uintptr_t>(entry->handle.load(std::memory_order_relaxed)),
                      std::memory_order_relaxed);
    if (entry->changed) {
      table().doomed().insert(*entry);
      table().policy().publish(*entry, EntryState::kDoomed);
    } else {
      table().insert(*entry);
      index_.insert(*entry);
      table().policy().publish(*entry, table().policy().account().limits().leave_pinned
                                           ? EntryState::kLive
                                           : EntryState::kTransient);
    }
  } else {
    table().policy().remove(*entry);
  }
  core_.news().tell();
  return status;
}

// The only call of the caller's open(); its result is checked.
int RemoteCache::make(CacheEntry& entry, CacheAttempt* attempt) {
  char* const why = attempt->why;
  const size_t why_size = sizeof attempt->why;
  const RemoteOrigin& from = index_.origin_of(entry);
  const rdm_remote_memory memory = {from.peer, from.base, static_cast<size_t>(from.length),
                                    from.handle, from.handle_size};
  void* address = nullptr;
  int status = operations_.open(context_, &memory, &address, why, why_size);
  if (status == RDM_OK && address != nullptr) {
    entry.handle.store(address, std::memory_order_relaxed);
    return status;
  }
  if (status == RDM_OK) {
    return fail(RDM_SYSTEM, "opening the handle gave no address", why, why_size);
  }
  const bool is_known = (status > RDM_OK && status <= RDM_BUSY) || status == RDM_BACKEND_LATER ||
                        status == RDM_BACKEND_OVERLAPS;
  // This status is reserved for the core.
  if (!is_known || status == RDM_NOT_REGISTERED) status = RDM_SYSTEM;
  if (why[0] == '\0' && status != RDM_OUT_OF_BUDGET) {
    (void)fail(status, "the handle could not be opened, and no reason was given", why, why_size);
  }
  return status;
}

int RemoteCache::end(CacheEntry& entry, bool) {
  return operations_.close(context_, reinterpret_cast<void*>(entry.begin()),
                           entry.end() - entry.begin());
}

void RemoteCache::note_unindexed(CacheEntry& entry) { index_.erase(entry); }

// Entries that could be found were replaced before; the rest are idle or in use.
bool RemoteCache::evict_overlapping(const CacheEntry&) { return core_.ender().end_all_idle(true); }

bool RemoteCache::overlaps_what_is_used(const CacheEntry& built) {
  for (const CacheEntry& entry : table().doomed()) {
    if (index_.origin_of(entry).overlaps(index_.origin_of(built))) return true;
  }
  return false;
}

int RemoteCache::put(const rdm_remote_mapping& mapping) {
  os::NoCancel no_cancel;
  if (const int status = refuse_forked(); status != RDM_OK) return status;
  Locked hold(core_.mutex());
  if (!core_.is_open()) return fail(RDM_INVALID, kRemoteWords.closed);
  const auto is_it = [&](const CacheEntry& entry) {
    return entry.end() - entry.begin() == mapping.length;
  };
  return core_.put(table().find_in_use(reinterpret_cast<uintptr_t>(mapping.address), is_it));
}

void RemoteCache::forget(uint64_t peer, uint64_t base, uint64_t length) {
  os::NoCancel no_cancel;
  if (phase_.load(std::memory_order_acquire) != Phase::kOpen) return;
  Locked hold(core_.mutex());
  if (!core_.is_open() || length == 0) return;
  RemoteOrigin range;
  range.peer = peer;
  range.base = base;
  range.length = length < UINT64_MAX - base ? length : UINT64_MAX - base;
  (void)doom_overlapping(core_.ender(), index_, range);
  for (CacheEntry& entry : table().building()) {
    if (index_.origin_of(entry).overlaps(range)) entry.changed = true;
  }
  core_.ender().end_all_idle(true);
}

int RemoteCache::counts(rdm_remote_counts* out) {
  if (const int status = refuse_forked(); status != RDM_OK) return status;
  Locked hold(core_.mutex());
  if (!core_.is_open()) return fail(RDM_INVALID, kRemoteWords.closed);
  out->hits = hits_;
  out->misses = table().counters().misses.load(std::memory_order_relaxed);
  out->evictions = table().counters().evictions.load(std::memory_order_relaxed);
  out->open = table().policy().account().count() - table().building().size();
  out->open_bytes = table().policy().account().bytes();
  for (const CacheEntry& entry : table().building()) out->open_bytes -= entry.charged;
  return RDM_OK;
}

void RemoteCache::note_fork_child() {
  if (!is_in_use()) return;
  core_.forget_all();
  index_.clear();
  phase_.store(Phase::kForked, std::memory_order_release);
}

bool RemoteCache::validate() {
  Locked hold(core_.mutex());
  return index_.validate() && index_.size() == table().index().size() && core_.validate();
}

}  // namespace rdmalloc
