// The registrations of foreign memory in one domain.
#include "regcache/foreign/foreign_cache.h"

#include "allocator/breakage.h"
#include "allocator/last_error.h"
#include "allocator/os/thread.h"
#include "regcache/foreign/entry_ranges.h"
#include "regcache/foreign/foreign_miss.h"
#include "regcache/lock_order.h"

namespace rdmalloc {
namespace {

constexpr CacheWords kForeignWords = {
    "the domain is closed",
    "all foreign memory that may be registered is in use: rdm_put some, raise foreign_bytes, "
    "foreign_count or RLIMIT_MEMLOCK, or set foreign_wait_ms",
    "some of it is registered with this device already, which registers memory only once, and is "
    "in use: put that first",
    "this memory region is not in use: it was put already, or comes from another domain; pass what "
    "rdm_get returned, once",
    "rdm_put was called more often than rdm_get for this memory region"};

}  // namespace

ForeignCache::ForeignCache()
    : core_(kForeignWords, operations_), operations_(core_.table(), core_.ender()), idle_(core_) {}

void ForeignCache::open(const ForeignSettings& settings, ForeignDevice* device) {
  Locked hold(core_.mutex());
  limits_ = settings.limits;
  wish_.store(settings.wish, std::memory_order_relaxed);
  operations_.open(device);
  CachePolicy& policy = core_.table().policy();
  if (policy.entries().is_open()) (void)policy.open(limits_);
  core_.open({settings.wait_ms, device->unpins_late()});
}

int ForeignCache::close(uint32_t* users) {
  os::NoCancel no_cancel;
  Locked hold(core_.mutex());
  return core_.close(users);
}

bool ForeignCache::start() {
  if (memo_.is_open()) return true;
  Locked hold(core_.mutex());
  return memo_.is_open() || (core_.table().policy().open(limits_) && memo_.open());
}

// Drops the reference to an entry that turned out to be a different one, or is no longer live.
void ForeignCache::release_touched(uint32_t touched) {
  CacheEntries& entries = core_.table().policy().entries();
  if (touched != PageMemo::kNone && !entries.release(entries.enter(), touched)) {
    (void)core_.end_release(&entries.at(touched));
  }
}

int ForeignCache::get_slowly(const void* address, size_t length, rdm_mr* out, uint32_t touched) {
  os::NoCancel no_cancel;
  release_touched(touched);
  changes.wait_until_told();
  if (!start()) return fail(RDM_SYSTEM, "no memory for the books of foreign memory");
  (void)core_.table().policy().entries().enter();
  // Done now, while no other get waits for this one.
  assert_no_rank();
  assert_linker_may_be_called();
  const bool may_watch = monitor_in_force(wish_.load(std::memory_order_relaxed), nullptr).look();
  ForeignMiss miss(core_, operations_, memo_, may_watch);
  Locked hold(core_.mutex());
  return miss.get(reinterpret_cast<uintptr_t>(address), length, out);
}

int ForeignCache::put_slowly(const rdm_mr& mr, uint32_t touched) {
  CacheEntries& entries = core_.table().policy().entries();
  if (touched != PageMemo::kNone) return core_.end_release(&entries.at(touched));
  os::NoCancel no_cancel;
  Locked hold(core_.mutex());
  const auto is_it = [&](const CacheEntry& entry) { return is_of(entry, mr); };
  CacheEntry* const entry =
      core_.is_open() ? core_.table().find_in_use(reinterpret_cast<uintptr_t>(mr.base), is_it)
                      : nullptr;
  if (entry != nullptr) memo_.note(entry->begin(), entries.index_of(*entry));
  return core_.put(entry);
}

void ForeignCache::on_change(uintptr_t base, uintptr_t end) {
  Locked hold(core_.mutex());
  if (!core_.is_open()) return;
  const EntryRange range{base, end};
  while (CacheEntry* const entry = first_overlapping(core_.table(), range)) {
    if (RDM_BROKEN(stale_entry_stays)) break;
    add_locked(core_.table().counters().invalidations, 1);
    core_.ender().doom(entry);
  }
  for (CacheEntry& entry : core_.table().building()) {
    if (range.overlaps(entry)) entry.changed = true;
  }
  if (core_.ender().idle().is_empty()) return;
  if (operations_.device().may_run_in_malloc()) {
    core_.ender().end_all_idle(false);
  } else {
    operations_.device().put_off();
  }
}

bool ForeignCache::is_cached(uintptr_t base, uintptr_t end) {
  Locked hold(core_.mutex());
  const EntryRange range{base, end};
  return core_.is_open() && (first_overlapping(core_.table(), range) != nullptr ||
                             is_being_built(core_.table(), range));
}

void ForeignCache::note_fork_child() { core_.forget_all(); }

bool ForeignCache::validate() {
  Locked hold(core_.mutex());
  uintptr_t end = 0;
  for (const CacheEntry& entry : core_.table().index()) {
    if (entry.begin() < end || entry.end() <= entry.begin()) return false;
    end = entry.end();
  }
  return core_.validate();
}

}  // namespace rdmalloc
