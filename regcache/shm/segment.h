#pragma once

#include <stdint.h>

#include "regcache/shm/agreement.h"
#include "regcache/shm/mapping.h"
#include "regcache/shm/presence.h"

namespace rdmalloc::shm {

struct Settings {
  uint32_t timeout_ms = 30'000;
  bool is_bound = true;
};

// One rank's part in a segment, from the segment's name until the rank detaches. Presence knows
// which ranks are there, Agreement whether all are, and Channel handles the messages. Set-up is for
// one thread; from commit() on any thread may ask presence() and what is const.
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

  const Mapping& mapping() const { return mapping_; }
  Presence& presence() { return presence_; }

 private:
  int publish(const char* name);
  int find(const char* name, uint64_t deadline);
  int join(const Settings& settings);
  int enter_slot();
  void write_part();
  void remove_name_when_all_came();

  Mapping mapping_;
  Presence presence_{mapping_};
  Agreement agreement_{mapping_, presence_};
  uint64_t timeout_ms_ = 0;
  bool is_joined_ = false;     // our slot says that we are present
  bool is_committed_ = false;  // the verdict was success
  char name_[201] = {};        // empty: not ours to remove
};

}  // namespace rdmalloc::shm
