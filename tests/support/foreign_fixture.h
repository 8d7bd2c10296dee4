// A cache of foreign memory over the fake pages and the fake device, without a domain or a heap.
#pragma once

#include <memory>

#include "allocator/last_error.h"
#include "tests/support/fake_foreign.h"
#include "tests/support/fake_monitor.h"
#include "tests/support/fake_os.h"

namespace rdmalloc::fake {

struct ForeignFixture {
  ForeignFixture() {
    reset();
    monitor.can_watch = true;
    set_changed_cache(cache.get());
    open();
  }
  ~ForeignFixture() {
    set_changed_cache(nullptr);
    changes.note_fork_child();
  }
  ForeignFixture(const ForeignFixture&) = delete;
  ForeignFixture& operator=(const ForeignFixture&) = delete;

  // Opens with `settings`; the device checks that they are respected.
  void open() {
    const CacheLimits& limits = settings.limits;
    device.promised_count = limits.count == 0 ? SIZE_MAX : limits.count;
    device.promised_bytes = limits.bytes;
    cache->open(settings, &device);
  }
  int close() { return cache->close(&users); }

  // Stand in for rdm_get and rdm_put.
  int get(const void* address, size_t length, rdm_mr* mr) {
    uint32_t touched = PageMemo::kNone;
    if (cache->get_hit(address, length, mr, &touched)) return RDM_OK;
    return cache->get_slowly(address, length, mr, touched);
  }
  int get_pages(size_t page, size_t count, rdm_mr* mr) {
    return get(Pages::at(page), count * Pages::kSize, mr);
  }
  int put(const rdm_mr& mr) {
    uint32_t touched = PageMemo::kNone;
    return cache->put_hit(mr, &touched) ? int{RDM_OK} : cache->put_slowly(mr, touched);
  }
  bool is_registered(const rdm_mr& mr) const { return Registration::of(mr).is_registered; }

  Pages pages;
  ForeignDevice device{&pages};
  ForeignSettings settings;
  uint32_t users = 0;
  std::unique_ptr<ForeignCache> cache = std::make_unique<ForeignCache>();
};

}  // namespace rdmalloc::fake
