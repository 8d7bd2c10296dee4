#pragma once

#include <stdint.h>

#include <atomic>

#include "regcache/shm/plan.h"
#include "regcache/shm/process.h"
#include "regcache/shm/segment_header.h"
#include "regcache/shm/shared_file.h"

namespace rdmalloc::shm {

// How long a death may go unnoticed by one who waits.
constexpr uint64_t kLookEveryMs = 20;

// How long who fails keeps the name for ranks that come late: they are told why then, where without
// the name they would wait for it in vain.
constexpr uint32_t kKeepNameMs = 2'000;

// Between looks at what is in the file system.
constexpr uint32_t kNapMs = 2;

struct Settings {
  uint32_t timeout_ms = 30'000;
  bool is_bound = true;
};

// One rank's view of a segment, from its name until it detaches: who is there, and whether all are.
// Channel does the messages. Set-up is for one thread; what comes after commit() for any.
//
// Each rank allocates and writes its own part alone, so that it lies on the rank's node, and so
// that a part for which there is no space is one rank's failure, which commit() makes everybody's.
// Before that nobody touches another's part: a page that is not there would be put where the reader
// runs, or kill it.
class Segment {
 public:
  Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  // Tells the others that this rank has left, and takes away the name if nobody has, perhaps a
  // moment later: see kKeepNameMs.
  ~Segment();

  // One of the two, once. As rdm_shm_create and rdm_shm_attach.
  int create(const char* name, const Plan& plan, uint32_t rank, const Settings& settings);
  int attach(const char* name, uint32_t rank, const Settings& settings);
  int commit(int own);
  // Before commit(): makes all ranks fail, with that status.
  void give_up(int status);

  // RDM_OK, and RDM_BUSY while its creator lives: see rdm_shm_remove.
  static int remove(const char* name);

  const Plan& plan() const { return plan_; }
  uint32_t rank() const { return rank_; }
  uint32_t procs() const { return plan_.shape().procs; }
  unsigned char* at(uint64_t offset) const { return file_.base() + offset; }
  template <typename T>
  T* as(uint64_t offset) const {
    return reinterpret_cast<T*>(at(offset));
  }
  RankSlot* slot(uint32_t rank) const { return as<RankSlot>(plan_.slot(rank)); }

  // From here on: after commit() only.
  bool is_alive(uint32_t rank) const;
  bool has_left(uint32_t rank) const {
    return slot(rank)->state.load(std::memory_order_acquire) == RankSlot::kDetached;
  }
  // A rank that died, plus 1, as far as anybody has noticed; 0: none.
  uint32_t lost() const { return header()->lost.load(std::memory_order_acquire); }
  // Looks at some of the ranks, one after the other, for such as died, if nobody in this process
  // did for kLookEveryMs; all ranks are told of the first. Returns it, plus 1; 0: none is known.
  uint32_t look_for_dead_now_and_then(uint64_t now);
  // True: every other rank has detached.
  bool is_alone() const;

 private:
  SegmentHeader* header() const { return as<SegmentHeader>(0); }

  uint32_t look_for_dead();
  int publish(const char* name);
  int find(const char* name, uint64_t deadline);
  int check(const char* name, SegmentHeader* copy);
  static int check_header(const char* name, const SegmentHeader& header, uint64_t bytes,
                          Plan* plan);
  int join(const Settings& settings);
  void write_part();
  int enter_slot();
  void decide(int status, uint32_t rank);
  int wait_for_verdict();
  int tell(uint64_t verdict) const;
  bool find_dead_before_commit(uint32_t* dead) const;
  bool runs(uint32_t rank, const Process& process) const;
  bool is_anybody_to_come() const;
  void remove_name_when_all_came();

  SharedFile file_;
  Plan plan_;
  Process self_;
  uint32_t rank_ = 0;
  std::atomic<uint32_t> next_look_{0};     // rank
  std::atomic<uint64_t> time_of_look_{0};  // ms
  uint64_t timeout_ms_ = 0;
  bool is_joined_ = false;     // our slot says that we are here
  bool is_committed_ = false;  // the verdict was to go on
  char name_[201] = {};        // empty: it is not ours to remove
};

}  // namespace rdmalloc::shm
