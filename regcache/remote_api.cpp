// The functions of include/rdmalloc/remote.h that apply to any cache of opened handles, and the
// table of all these caches.
#include <pthread.h>
#include <stddef.h>

#include "allocator/last_error.h"
#include "allocator/os/thread.h"
#include "include/rdmalloc/remote.h"
#include "regcache/caller_struct.h"
#include "regcache/foreign/remote_cache.h"
#include "regcache/posix_lock.h"
#include "regcache/record_list.h"

namespace rdmalloc {
namespace {

constexpr uint32_t kDefaultCount = 1024;

// The lock is for opening and closing; a child of fork resets it.
class RemoteCaches {
 public:
  constexpr RemoteCaches() = default;

  int open(const rdm_remote_operations& operations, void* context, const RemoteSettings& settings,
           RemoteCache** out);
  int close(RemoteCache* cache);

  // Null: the handle is not one of ours.
  RemoteCache* find(const rdm_remote_cache* handle) const { return caches_.find(handle); }
  void note_fork_child();

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  RecordList<RemoteCache, 64> caches_;
  bool hears_of_forks_ = false;
};

constinit RemoteCaches remote_caches;

void RemoteCaches::note_fork_child() {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  caches_.note_fork_child();
}

int RemoteCaches::open(const rdm_remote_operations& operations, void* context,
                       const RemoteSettings& settings, RemoteCache** out) {
  os::NoCancel no_cancel;
  PosixLock hold(&mutex_, LockRank::kOuter);
  if (!hears_of_forks_) {
    if (pthread_atfork(nullptr, nullptr, [] { remote_caches.note_fork_child(); }) != 0) {
      return fail(RDM_SYSTEM, "no memory for fork handlers");
    }
    hears_of_forks_ = true;
  }
  const size_t number = caches_.find_free();
  if (number == caches_.kMost) {
    return fail(RDM_UNSUPPORTED, "too many caches of opened handles are open: close one");
  }
  RemoteCache* const cache = caches_.make(number);
  if (cache == nullptr || !cache->open(operations, context, settings)) {
    return fail(RDM_SYSTEM, "no memory for bookkeeping");
  }
  *out = cache;
  return RDM_OK;
}

// Waits for threads that are closing handles, and so may delay threads that open or close another
// cache.
int RemoteCaches::close(RemoteCache* cache) {
  os::NoCancel no_cancel;
  PosixLock hold(&mutex_, LockRank::kOuter);
  return cache->is_in_use() ? cache->close() : fail(RDM_INVALID, "the cache is closed");
}

bool read_operations(const rdm_remote_operations* given, rdm_remote_operations* operations) {
  if (!read_struct(given, offsetof(rdm_remote_operations, closed), operations)) return false;
  return operations->name != nullptr && operations->open != nullptr && operations->close != nullptr;
}

RemoteSettings settings_of(const rdm_remote_options& options) {
  RemoteSettings settings;
  settings.limits.bytes = options.bytes == 0 ? UINT64_MAX : options.bytes;
  settings.limits.count = options.count == 0 ? kDefaultCount : options.count;
  settings.limits.leave_pinned = (options.flags & RDM_DOMAIN_LEAVE_NOTHING_PINNED) == 0;
  settings.wait_ms = options.wait_ms;
  return settings;
}

int open_cache(const rdm_remote_operations* given, void* context, const rdm_remote_options& options,
               RemoteCache** out) {
  rdm_remote_operations operations;
  if (!read_operations(given, &operations)) {
    return fail(RDM_INVALID, "the table of operations lacks its size, a name, open or close");
  }
  if ((options.flags & ~unsigned{RDM_DOMAIN_LEAVE_NOTHING_PINNED}) != 0) {
    return fail(RDM_INVALID, "flags have bits that are not known here");
  }
  if (options.count > CacheEntries::kCapacity) {
    return fail(RDM_INVALID, "count is above the number of handles that a cache can have open");
  }
  return remote_caches.open(operations, context, settings_of(options), out);
}

RemoteCache* cache_of(const rdm_remote_cache* handle) {
  RemoteCache* const cache = remote_caches.find(handle);
  if (cache == nullptr) (void)fail(RDM_INVALID, "this is no open cache of opened handles");
  return cache;
}

}  // namespace
}  // namespace rdmalloc

using rdmalloc::fail;
using rdmalloc::RemoteCache;

extern "C" {

int rdm_remote_cache_open(const rdm_remote_operations* operations, void* ctx,
                          const rdm_remote_options* given, rdm_remote_cache** out) {
  rdm_remote_options options;
  if (!rdmalloc::read_options(given, &options)) {
    return fail(RDM_INVALID, "the options lack their size: set it to sizeof(rdm_remote_options)");
  }
  RemoteCache* cache = nullptr;
  const int status = out == nullptr ? fail(RDM_INVALID, "there is no place for the cache")
                                    : rdmalloc::open_cache(operations, ctx, options, &cache);
  if (status != RDM_OK) {
    return fail(status, rdmalloc::last_error(), options.error, options.error_size);
  }
  *out = reinterpret_cast<rdm_remote_cache*>(cache);
  return status;
}

int rdm_remote_cache_close(rdm_remote_cache* cache) {
  RemoteCache* const known = rdmalloc::cache_of(cache);
  return known == nullptr ? int{RDM_INVALID} : rdmalloc::remote_caches.close(known);
}

int rdm_remote_get(rdm_remote_cache* cache, const rdm_remote_memory* memory,
                   rdm_remote_mapping* out) {
  RemoteCache* const known = rdmalloc::cache_of(cache);
  if (known == nullptr) return RDM_INVALID;
  if (memory == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the memory, or the place for the result, is null");
  }
  return known->get(*memory, out);
}

int rdm_remote_put(rdm_remote_cache* cache, const rdm_remote_mapping* mapping) {
  RemoteCache* const known = rdmalloc::cache_of(cache);
  if (known == nullptr) return RDM_INVALID;
  if (mapping == nullptr) return fail(RDM_INVALID, "the mapping is null");
  return known->put(*mapping);
}

void rdm_remote_forget(rdm_remote_cache* cache, uint64_t peer, uint64_t base, size_t length) {
  RemoteCache* const known = rdmalloc::cache_of(cache);
  if (known != nullptr) known->forget(peer, base, length);
}

int rdm_remote_counts_get(const rdm_remote_cache* cache, rdm_remote_counts* out) {
  RemoteCache* const known = rdmalloc::cache_of(cache);
  if (known == nullptr) return RDM_INVALID;
  if (out == nullptr) return fail(RDM_INVALID, "the place for the counts is null");
  return known->counts(out);
}

}  // extern "C"
