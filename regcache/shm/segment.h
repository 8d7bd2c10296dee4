#pragma once

#include <stdint.h>

#include <atomic>

#include "regcache/shm/plan.h"
#include "regcache/shm/process.h"
#include "regcache/shm/segment_header.h"
#include "regcache/shm/shared_file.h"

namespace rdmalloc::shm {

// The longest that a death may go unnoticed by a waiting rank.
constexpr uint64_t kLookEveryMs = 20;

// How long a rank that fails keeps the name for late ranks: they are then told why, where otherwise
// they would wait for the name in vain.
constexpr uint32_t kKeepNameMs = 2'000;

// Interval between checks of the file system.
constexpr uint32_t kNapMs = 2;

struct Settings {
  uint32_t timeout_ms = 30'000;
  bool is_bound = true;
};

// One rank's view of a segment, from its name until it detaches: which ranks are present, and
// whether all are. Channel handles the messages. Set-up is for one thread; from commit() on any
// thread may call.
//
// Each rank allocates and writes its own part alone. So the part lies on the rank's node, and a
// lack of space for it is one rank's failure, which commit() reports to all. Until then nobody
// touches another rank's part: a missing page would be allocated on the reader's node, or kill the
// reader.
class Segment {
 public:
  Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  // Tells the others that this rank has left, and removes the name if nobody else has, possibly a
  // moment later: see kKeepNameMs.
  ~Segment();

  // Call one of the two, once. As rdm_shm_create and rdm_shm_attach.
  int create(const char* name, const Plan& plan, uint32_t rank, const Settings& settings);
  int attach(const char* name, uint32_t rank, const Settings& settings);
  int commit(int own);
  // Before commit(): makes all ranks fail with that status.
  void give_up(int status);

  // RDM_OK, or RDM_BUSY while its creator lives: see rdm_shm_remove.
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

  // From here on: only after commit().
  bool is_alive(uint32_t rank) const;
  bool has_left(uint32_t rank) const {
    return slot(rank)->state.load(std::memory_order_acquire) == RankSlot::kDetached;
  }
  // A rank known to have died, plus 1; 0: none.
  uint32_t lost() const { return header()->lost.load(std::memory_order_acquire); }
  // Checks a few ranks in turn for deaths, unless this process did so within kLookEveryMs, and
  // tells all ranks of the first death. Returns that rank plus 1; 0: none is known.
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
  bool is_joined_ = false;     // our slot says that we are present
  bool is_committed_ = false;  // the verdict was success
  char name_[201] = {};        // empty: not ours to remove
};

}  // namespace rdmalloc::shm
