#include "regcache/foreign/entry_ender.h"

#include "allocator/os/clock.h"
#include "include/rdmalloc/backend.h"

namespace rdmalloc {

void EntryEnder::unindex(CacheEntry* entry) {
  table_.erase(*entry);
  operations_.note_unindexed(*entry);
}

void EntryEnder::doom(CacheEntry* entry) {
  unindex(entry);
  if (table_.policy().doom(*entry)) {
    idle_.push(entry);
  } else {
    table_.doomed().insert(*entry);
  }
}

bool EntryEnder::doom_if_idle(CacheEntry* entry) {
  if (!table_.policy().doom_if_idle(*entry)) return false;
  unindex(entry);
  idle_.push(entry);
  return true;
}

CacheEntry* EntryEnder::take_victim() {
  CacheEntry* const victim = table_.policy().choose_victim();
  if (victim == nullptr) return nullptr;
  unindex(victim);
  add_locked(table_.counters().evictions, 1);
  return victim;
}

bool EntryEnder::note_ended(CacheEntry* entry, int status) {
  if (status == RDM_OK) {
    table_.policy().remove(*entry);
    ++ended_;
    ended_at_ns_ = os::now_ns();
  } else if (status == RDM_BACKEND_LATER) {
    idle_.push(entry);
  } else {
    lost_.push(entry);
  }
  return status != RDM_BACKEND_LATER;
}

bool EntryEnder::end(CacheEntry* entry, bool may_wait) {
  ++ending_;
  news_.mutex().unlock();
  const int status = operations_.end(*entry, may_wait);
  news_.mutex().lock();
  --ending_;
  const bool is_over = note_ended(entry, status);
  news_.tell();
  return is_over;
}

bool EntryEnder::end_one_idle() { return !idle_.is_empty() && end(idle_.pop(), true); }

bool EntryEnder::end_all_idle(bool may_wait) {
  EntryChain chain = idle_;
  idle_ = {};
  bool ended = false;
  while (!chain.is_empty()) ended = end(chain.pop(), may_wait) || ended;
  return ended;
}

bool EntryEnder::evict_one() {
  CacheEntry* const victim = take_victim();
  return victim != nullptr && end(victim, true);
}

void EntryEnder::end_unused(CacheEntry* entry) {
  const bool was_shared = entry->state.load(std::memory_order_relaxed) == EntryState::kTransient;
  if (!table_.policy().claim(*entry)) return;
  if (was_shared) {
    unindex(entry);
  } else {
    table_.doomed().erase(table_.doomed().iterator_to(*entry));
  }
  end(entry, true);
}

bool EntryEnder::end_everything() {
  while (ending_ != 0) {
    news_.wait();
    // Entries that could not be ended inside malloc.
    (void)end_all_idle(true);
  }
  while (!idle_.is_empty()) lost_.push(idle_.pop());
  const bool is_clean = lost_.is_empty();
  while (!lost_.is_empty()) table_.policy().remove(*lost_.pop());
  return is_clean;
}

size_t EntryEnder::count() const { return idle_.count() + lost_.count() + ending_; }

void EntryEnder::clear() {
  idle_ = {};
  ending_ = 0;
  lost_ = {};
}

}  // namespace rdmalloc
