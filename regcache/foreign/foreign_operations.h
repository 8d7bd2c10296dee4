// What an entry of foreign memory stands for: a registration with a device, and memory that is
// watched for changes. Called as CacheOperations says; end() also inside malloc, and then it calls
// no monitor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_operations.h"
#include "regcache/foreign/entry_ender.h"
#include "regcache/foreign/entry_ranges.h"
#include "regcache/foreign/foreign_device.h"

namespace rdmalloc {

// An attempt to register memory; make() takes no other.
struct ForeignAttempt : CacheAttempt {
  bool may_watch = false;
  bool is_watched = false;  // what is being built is, from its first try on
  // Gives up its place to what is being built, and is ended first.
  CacheEntry* victim = nullptr;
  bool has_ended_victim = false;
  int victim_status = RDM_OK;
};

class ForeignOperations final : public CacheOperations {
 public:
  ForeignOperations(CacheTable& table, EntryEnder& ender) : table_(table), ender_(ender) {}
  ForeignOperations(const ForeignOperations&) = delete;
  ForeignOperations& operator=(const ForeignOperations&) = delete;

  void open(ForeignDevice* device) REQUIRES(cache_lock) { device_ = device; }
  ForeignDevice& device() const { return *device_; }

  int make(CacheEntry& entry, CacheAttempt* attempt) EXCLUDES(cache_lock) override;
  int end(CacheEntry& entry, bool may_wait) EXCLUDES(cache_lock) override {
    return end(entry, may_wait, false);
  }
  bool reclaim(const CacheEntry& entry) EXCLUDES(cache_lock) override {
    return device_->reclaim(entry.end() - entry.begin());
  }
  bool may_reclaim(const CacheEntry& entry) EXCLUDES(cache_lock) override {
    return device_->may_reclaim(entry.end() - entry.begin());
  }
  void note_unindexed(CacheEntry& entry) REQUIRES(cache_lock) override;
  bool evict_overlapping(const CacheEntry& entry) REQUIRES(cache_lock) override {
    return evict_overlapping(EntryRange::of(entry));
  }
  bool evict_overlapping(const EntryRange& range) REQUIRES(cache_lock);
  bool overlaps_what_is_used(const CacheEntry& entry) REQUIRES(cache_lock) override;

 private:
  int end(CacheEntry& entry, bool may_wait, bool keeps_room) EXCLUDES(cache_lock);

  CacheTable& table_;
  EntryEnder& ender_;
  ForeignDevice* device_ = nullptr;
};

}  // namespace rdmalloc
