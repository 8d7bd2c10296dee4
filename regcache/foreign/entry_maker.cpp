#include "regcache/foreign/entry_maker.h"

#include "allocator/os/clock.h"
#include "include/rdmalloc/backend.h"

namespace rdmalloc {
namespace {

// How long to sleep between checks for a put: hits wake nobody.
constexpr uint64_t kLookAgainNs = 200'000;

// How long to wait for a backend that asks to come later: forking a large heap can take this long.
constexpr uint64_t kLongestPutOffNs = 5'000'000'000;

// For how long after a device has deregistered it may still count the pages as pinned, if it does
// that late; and how long to sleep until it is asked again.
constexpr uint64_t kLatestUnpinNs = 1'500'000'000;
constexpr uint64_t kAskAgainNs = 20'000'000;

constexpr uint64_t kNsPerMs = 1'000'000;

}  // namespace

uint64_t CacheAttempt::waited_ns() {
  const uint64_t now = os::now_ns();
  if (waits_since_ == 0) waits_since_ = now;
  return now - waits_since_;
}

bool EntryMaker::wait_for_others(CacheAttempt* attempt) {
  const uint64_t waited = attempt->waited_ns();
  if (ender_.is_ending() && waited < kLongestPutOffNs) {
    // Another thread is ending an entry, which makes room.
    news_.wait();
    return true;
  }
  if (attempt->is_optional) return false;
  if (waited < waits_.for_puts_ms * kNsPerMs) {
    news_.wait(kLookAgainNs);
    return true;
  }
  if (waited >= kLongestPutOffNs || !is_unpinning(*attempt)) return false;
  news_.wait(kAskAgainNs);
  return true;
}

// The device refused, not our books, and may still count what this cache has just given back.
bool EntryMaker::is_unpinning(const CacheAttempt& attempt) const {
  return waits_.for_late_unpins && attempt.why[0] != '\0' && ender_.ended_at_ns() != 0 &&
         os::now_ns() - ender_.ended_at_ns() < kLatestUnpinNs;
}

// The obstacle may have gone before anyone looks for it.
bool EntryMaker::has_ended_since(uint32_t ended, CacheAttempt* attempt) const {
  return ender_.ended() != ended && attempt->waited_ns() < kLongestPutOffNs;
}

int EntryMaker::make(CacheAttempt* attempt, CacheEntry* entry) {
  for (;;) {
    attempt->why[0] = '\0';
    const uint32_t ended = ender_.ended();
    news_.mutex().unlock();
    const int status = operations_.make(*entry, attempt);
    news_.mutex().lock();
    switch (status) {
      case RDM_OUT_OF_BUDGET:
      case RDM_NOT_REGISTERED:
        if (has_ended_since(ended, attempt)) continue;
        if (has_room_made(status, attempt, *entry)) continue;
        if (attempt->why[0] == '\0') {
          (void)fail(status, words_.no_room, attempt->why, sizeof attempt->why);
        }
        return RDM_OUT_OF_BUDGET;
      case RDM_BACKEND_OVERLAPS:
        if (has_ended_since(ended, attempt) || operations_.evict_overlapping(*entry)) continue;
        if (wait_for_others(attempt)) continue;
        // If the overlap is not with one of our entries, the backend's message is the better one.
        if (attempt->why[0] == '\0' || operations_.overlaps_what_is_used(*entry)) {
          (void)fail(status, words_.overlaps, attempt->why, sizeof attempt->why);
        }
        return RDM_BUSY;
      case RDM_BACKEND_LATER:
        if (attempt->waited_ns() > kLongestPutOffNs) {
          return fail(RDM_SYSTEM, "the backend kept asking to be called later", attempt->why,
                      sizeof attempt->why);
        }
        news_.wait(kLookAgainNs);
        continue;
      default:
        return status;
    }
  }
}

// Gives up nothing if that could not make enough room; but other threads may still put something.
bool EntryMaker::has_room_made(int status, CacheAttempt* attempt, const CacheEntry& entry) {
  if (status == RDM_OUT_OF_BUDGET && !attempt->is_optional) {
    if (!may_reclaim(entry)) return wait_for_others(attempt);
    if (reclaim(entry)) return true;
  }
  return make_room(attempt, &entry);
}

bool EntryMaker::may_reclaim(const CacheEntry& entry) {
  news_.mutex().unlock();
  const bool may = operations_.may_reclaim(entry);
  news_.mutex().lock();
  return may;
}

// Comes after giving up this cache's own idle entries, and before waiting for its users.
bool EntryMaker::reclaim(const CacheEntry& entry) {
  if (!ender_.idle().is_empty()) return false;
  if (ender_.evict_one()) return true;
  news_.mutex().unlock();
  const bool reclaimed = operations_.reclaim(entry);
  news_.mutex().lock();
  return reclaimed;
}

bool EntryMaker::make_room(CacheAttempt* attempt, const CacheEntry* entry) {
  if (ender_.end_one_idle()) return true;
  if (attempt->is_optional) return entry != nullptr && operations_.evict_overlapping(*entry);
  return ender_.evict_one() || wait_for_others(attempt);
}

}  // namespace rdmalloc
