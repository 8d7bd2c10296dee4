// Where regions come from: the heap, or a test. This is all that the registration cache knows of
// the allocator.
#pragma once

#include <cstdint>

#include "allocator/os/clock.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region_observer.h"
#include "allocator/pages/region_table.h"
#include "allocator/status.h"
#include "regcache/foreign/monitor/monitor.h"

namespace rdmalloc {

// What domains do with foreign memory unless their own options say otherwise.
struct ForeignDefaults {
  bool leave_pinned = true;
  uint64_t bytes = UINT64_MAX;
  uint32_t count = 0;  // 0: as many as there can be
  MonitorWish monitor = MonitorWish::kAuto;
};

class RegionSource {
 public:
  // Tells the observer of every existing region, and from then on, permanently, of every new one.
  // Does nothing if it is attached already.
  virtual Status attach(RegionObserver* observer) noexcept = 0;

  // Complete once attach() returns; the window does not change from then on.
  virtual const RegionTable& regions() const noexcept = 0;
  virtual const Window& window() const noexcept = 0;

  // Which pages of regions were retired; null if none ever are.
  virtual const PageMarks* marks() const noexcept { return nullptr; }

  // Populates all of a region's pages, in steps, before the region is registered. False: there is
  // no room for all of them, and registering it would end in an OOM kill.
  virtual bool populate(const Region& region, PagesFor who) const noexcept {
    (void)region;
    (void)who;
    return true;
  }

  // The same for a part of a region, whatever the state of the rest.
  virtual bool populate_part(const Region& region, uintptr_t from, uintptr_t to) const noexcept {
    (void)region;
    (void)from;
    (void)to;
    return true;
  }

  // How many bytes registrations may pin in this process under its memlock limit, less what is left
  // to others; UINT64_MAX without a limit. mlock is accounted separately. Read again each time,
  // also inside malloc.
  virtual uint64_t pin_limit() const noexcept = 0;

  // The clock by which refused registrations are tried again.
  virtual uint64_t now_ns() const noexcept { return os::now_ns(); }

  virtual ForeignDefaults foreign() const noexcept { return {}; }

  // Publishes what is registered now, for others to see. Any thread, also inside malloc.
  virtual void note_registrations(uint64_t domains, uint64_t bytes, uint64_t pinned) noexcept {
    (void)domains;
    (void)bytes;
    (void)pinned;
  }

  // Makes each fork begin with that call, when no registration is in progress: see ForkGate. To be
  // called without locks and not inside malloc.
  virtual void call_before_forks(void (*release)(void* context), void* context) noexcept {
    (void)release;
    (void)context;
  }

  // Whether registered pages stay with the process when it forks: see os/copy_on_fork.h.
  virtual bool copies_pinned_at_fork() const noexcept { return true; }

  // Whether messages for the user are wanted.
  virtual bool warns() const noexcept = 0;

 protected:
  ~RegionSource() = default;
};

}  // namespace rdmalloc
