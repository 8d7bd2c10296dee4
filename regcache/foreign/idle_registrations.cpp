#include "regcache/foreign/idle_registrations.h"

#include "allocator/os/thread.h"

namespace rdmalloc {

IdleRegistrations::Sum IdleRegistrations::sum(uint64_t enough_bytes, size_t enough_count) {
  Sum sum;
  const auto add = [&](const CacheEntry& entry) {
    sum.bytes += entry.end() - entry.begin();
    ++sum.count;
    return sum.bytes < enough_bytes && sum.count < enough_count;
  };
  for (const CacheEntry* entry = core_.ender().idle().first; entry != nullptr;
       entry = entry->next) {
    if (!add(*entry)) return sum;
  }
  for (const CacheEntry& entry : core_.table().index()) {
    const bool is_live = entry.state.load(std::memory_order_relaxed) == EntryState::kLive;
    if (is_live && core_.table().policy().entries().users(entry) == 0 && !add(entry)) break;
  }
  return sum;
}

bool IdleRegistrations::give_up(size_t wanted) {
  os::NoCancel no_cancel;
  Locked hold(core_.mutex());
  if (!core_.is_open()) return false;
  const CacheAccount& account = core_.table().policy().account();
  const uint64_t before = account.bytes();
  const uint64_t goal = before > wanted ? before - wanted : 0;
  bool gave = core_.ender().end_all_idle(true);
  while (account.bytes() > goal && core_.ender().evict_one()) gave = true;
  return gave;
}

bool IdleRegistrations::give_up_count(size_t wanted) {
  os::NoCancel no_cancel;
  Locked hold(core_.mutex());
  if (!core_.is_open() || sum(UINT64_MAX, wanted).count < wanted) return false;
  const CacheAccount& account = core_.table().policy().account();
  const size_t goal = account.count() - wanted;
  (void)core_.ender().end_all_idle(true);
  while (account.count() > goal && core_.ender().evict_one()) {
  }
  return true;
}

uint64_t IdleRegistrations::bytes(uint64_t enough) {
  Locked hold(core_.mutex());
  return core_.is_open() ? sum(enough, SIZE_MAX).bytes : 0;
}

size_t IdleRegistrations::count(size_t enough) {
  Locked hold(core_.mutex());
  return core_.is_open() ? sum(UINT64_MAX, enough).count : 0;
}

bool IdleRegistrations::deregister() {
  os::NoCancel no_cancel;
  Locked hold(core_.mutex());
  core_.ender().end_all_idle(true);
  return core_.ender().idle().is_empty();
}

}  // namespace rdmalloc
