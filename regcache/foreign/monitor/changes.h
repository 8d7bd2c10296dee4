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

  // For caches: before registering, and once the registration can no longer be handed out.
  void count_in(uintptr_t base, uintptr_t end);
  void count_out(uintptr_t base, uintptr_t end);
  // After count_in().
  bool is_announced(uintptr_t base, uintptr_t end) const;

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

  // False: nothing of the range is counted in. True: perhaps.
  bool may_be_cached(uintptr_t base, uintptr_t end) const;

  void note_fork_child();

 private:
  friend class Change;
  static constexpr size_t kGranuleShift = 16;
  static constexpr size_t kCounts = 1 << 16;
  // A longer range is counted in as a whole. Of one that is asked for, anything counted may be
  // part.
  static constexpr size_t kMostGranules = 4096;
  static constexpr size_t kAnnouncements = 64;  // a bit of announced_ each

  // A range in one word, so that one step takes the slot and announces the range: the number of its
  // first page, and in the low bits how many pages it has. Pages are 4 KiB here; larger pages of a
  // kernel are multiples of these. 0: free.
  struct alignas(64) Announcement {
    std::atomic<uint64_t> pages{0};
  };
  static constexpr int kPageShift = 12;
  static constexpr int kLengthBits = 28;
  static constexpr uint64_t kMostPages = (uint64_t{1} << kLengthBits) - 1;

  // Granules that follow each other share a cache line.
  static size_t place_of(uintptr_t granule) {
    constexpr int kNearBits = 5;
    const uint64_t hash = (uint64_t{granule} >> kNearBits) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(hash >> 48) ^ (granule & ((1 << kNearBits) - 1));
  }
  Announcement* announce(uintptr_t base, uintptr_t end);

  std::atomic<ChangeSink*> sink_{nullptr};
  std::atomic<LateMonitor*> late_{nullptr};
  std::atomic<uint32_t> held_up_{0};
  std::atomic<bool> has_counted_{false};  // some range was ever counted in
  std::atomic<uint32_t> long_ranges_{0};  // those of them with too many granules to count
  std::atomic<uint32_t> unannounced_{0};  // changes for which no announcement was free or fit
  std::atomic<uint64_t> announced_{0};    // those that were ever taken: the others need no look
  Announcement announcements_[kAnnouncements];
  alignas(64) std::atomic<uint16_t> counts_[kCounts] = {};
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

  Changes::Announcement* announcement_ = nullptr;
  bool made_ = false;
};

}  // namespace rdmalloc
