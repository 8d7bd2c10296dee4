// Changes of memory that end what was registered of it: unmapping, moving, dropping pages. This
// board connects those who learn of changes (monitors, the heap) with those who keep registrations
// (caches), so that no registration made before a change is used after it:
//
//   a thread that changes memory    announces the range, tells the caches what of it is registered,
//                                   makes the change, withdraws the range: a Change lives around
//                                   the system call
//   a thread that registers memory  counts the range in, so that changes of it are reported; then
//                                   checks whether one is announced, and if so does not keep the
//                                   registration
//
// Both write first and look afterwards, so one of them sees the other. Everything here may run
// inside malloc and in any system call of the program's. It takes no lock except the sink's, and
// adds some nanoseconds to a change of memory that nobody registered. A signal handler that changes
// registered memory must not interrupt rdm_get or rdm_put: it would wait for the lock of the thread
// that it stopped (POSIX lists no such call as safe there). Constant-initialised. In the child of a
// fork nothing is registered.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/monitor/announcements.h"
#include "regcache/foreign/monitor/range_counts.h"

namespace rdmalloc {

// The keeper of registrations; there is one.
class ChangeSink {
 public:
  // When it returns, nothing registered of [base, end) will be handed out again. Inside malloc.
  virtual void on_change(uintptr_t base, uintptr_t end) noexcept = 0;

  // Whether anything of [base, end) is registered and may be handed out, or is being registered.
  virtual bool is_cached(uintptr_t base, uintptr_t end) noexcept = 0;

 protected:
  ~ChangeSink() = default;
};

// A monitor that learns of changes after they were made, or when they are about to be made. Called
// from anywhere.
class LateMonitor {
 public:
  // To be called after a call that drops pages, while the drop is still announced. Waits until the
  // drop has been reported, so that the monitor finds it announced and need not guess when it is
  // over.
  virtual void wait_until_told() noexcept = 0;

  // Waits until all changes made before this call have been reported.
  virtual void catch_up() noexcept = 0;

  // Stops watching all of [base, base + length). To the kernel a watched range is a mapping of its
  // own, and the kernel refuses some calls that span several mappings.
  virtual void let_go(uintptr_t base, size_t length) noexcept = 0;

 protected:
  ~LateMonitor() = default;
};

class Changes {
 public:
  constexpr Changes() = default;
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  // Permanently, before the first count_in().
  void attach(ChangeSink* sink) { sink_.store(sink, std::memory_order_release); }
  ChangeSink* sink() const { return sink_.load(std::memory_order_acquire); }

  // What is registered. For caches: count in before registering, and out once the registration can
  // no longer be handed out.
  RangeCounts& counts() { return counts_; }
  // What is being changed. For caches: ask after counting in.
  Announcements& announcements() { return announcements_; }

  // A monitor that learns of changes after they were made holds this up before it lets the threads
  // that made them continue, and until it has reported them all. Hits check it.
  void hold_up() { held_up_.fetch_add(1, std::memory_order_seq_cst); }
  void go_on();
  bool is_held_up() const { return held_up_.load(std::memory_order_acquire) != 0; }
  void wait_until_told() const;

  // For a change that has already been made.
  void tell(uintptr_t base, uintptr_t end);

  void attach_late(LateMonitor* monitor) { late_.store(monitor, std::memory_order_release); }
  LateMonitor* late() const { return late_.load(std::memory_order_acquire); }
  // Memory was mapped at [base, end): when this returns, the end of what lay there has been
  // reported.
  void catch_up(uintptr_t base, uintptr_t end) const;

  void note_fork_child();

 private:
  std::atomic<ChangeSink*> sink_{nullptr};
  std::atomic<LateMonitor*> late_{nullptr};
  std::atomic<uint32_t> held_up_{0};
  Announcements announcements_;
  RangeCounts counts_;
};

// The process's.
extern constinit Changes changes;

// A change of [base, base + length), made while this lives, by one thread. Leaves errno alone. Does
// nothing where nothing is registered, and for no bytes. A thread that is cancelled asynchronously
// inside it leaves the range announced forever, and nothing in that range is kept from then on.
// POSIX lets no system call that changes memory be cancelled in this way, and preventing it costs
// more than everything else here.
class [[nodiscard]] Change {
 public:
  // kAnnounced: the caller tells what of the range changes.
  enum Kind : uint8_t { kTold, kAnnounced };

  Change(const void* base, size_t length, Kind kind = kTold) {
    if (length != 0 && changes.sink() != nullptr) begin(base, length, kind);
  }
  ~Change() {
    if (made_) end();
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  void begin(const void* base, size_t length, Kind kind);
  void end();

  Announcements::Slot* slot_ = nullptr;
  bool made_ = false;
};

}  // namespace rdmalloc
