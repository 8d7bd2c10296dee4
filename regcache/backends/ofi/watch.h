// What libfabric's cache has registered of memory that may change, and whether it has changed
// since.
//
// A domain of ours whose backend registers nothing stands for libfabric's registrations. Its cache
// of foreign memory, and the monitor behind it, see changes; after a change the same range gets a
// different number. A change is not reported to libfabric, which holds locks that a thread changing
// memory inside malloc may wait for; libfabric asks before each use.
//
// Any thread may call, also with libfabric's locks held, but not inside malloc. The lock here is
// held for the table only. In a child of fork nothing is valid.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"

namespace rdmalloc {

class OfiWatch {
 public:
  constexpr OfiWatch() = default;
  OfiWatch(const OfiWatch&) = delete;
  OfiWatch& operator=(const OfiWatch&) = delete;

  // Call once. Before that, or if it returned false, nothing can be watched.
  bool open();

  // A cache has registered the range. False: it may not keep the registration. Either the range
  // cannot be watched, or some cache has a registration of it from before a change, and is_valid()
  // cannot tell the two apart.
  bool add(const void* address, size_t length);

  // A cache gives up a registration. Old versions of libfabric do not report this.
  void remove(const void* address, size_t length);

  // Whether the range was added and has not changed since. If it has changed, the cache that asks
  // gives up its registration.
  bool is_valid(const void* address, size_t length);

 private:
  struct Range {
    const void* address;
    size_t length;
    uint32_t number;  // of our own domain's registration that covered it when it was added
    uint32_t count;   // registrations that caches keep, all with that number; 0: free
    uint32_t known;   // calls of remove() that may still come for registrations not in `count`
  };
  static constexpr size_t kSets = 8192;
  static constexpr size_t kWays = 8;

  bool ask(const void* address, size_t length, uint32_t* number) const;
  Range* find(const void* address, size_t length) const;
  Range* set_of(const void* address) const;

  std::atomic<rdm_domain*> domain_{nullptr};  // null: not open; the rest is set before it
  Range* ranges_ = nullptr;
  pid_t process_ = 0;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace rdmalloc
