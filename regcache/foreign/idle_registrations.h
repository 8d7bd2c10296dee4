// What a cache of foreign memory keeps registered without users, for those who need its room more.
// Takes the cache's lock; never inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_core.h"

namespace rdmalloc {

class IdleRegistrations {
 public:
  explicit IdleRegistrations(CacheCore& core) : core_(core) {}
  IdleRegistrations(const IdleRegistrations&) = delete;
  IdleRegistrations& operator=(const IdleRegistrations&) = delete;

  // Gives up idle registrations, least recently used first, until this many bytes are free or none
  // is left; true if there was any.
  bool give_up(size_t wanted) EXCLUDES(cache_lock);
  // Gives up this many registrations or, returning false, none.
  bool give_up_count(size_t wanted) EXCLUDES(cache_lock);
  // How much could be given up, counted up to `enough`.
  uint64_t bytes(uint64_t enough) EXCLUDES(cache_lock);
  size_t count(size_t enough) EXCLUDES(cache_lock);

  // Deregisters what ForeignCache::on_change() had to leave. False: something is still left.
  bool deregister() EXCLUDES(cache_lock);

 private:
  struct Sum {
    uint64_t bytes = 0;
    size_t count = 0;
  };
  // Until either bound is reached.
  Sum sum(uint64_t enough_bytes, size_t enough_count) REQUIRES(cache_lock);

  CacheCore& core_;
};

}  // namespace rdmalloc
