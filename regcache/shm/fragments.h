#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/rdmalloc/shm.h"
#include "regcache/shm/fragment.h"
#include "regcache/shm/free_list.h"
#include "regcache/shm/mapping.h"
#include "regcache/shm/private_array.h"

namespace rdmalloc::shm {

// The fragments of a segment, as one rank uses them: it takes its own from their free lists, and
// reads and gives back those of others. Any thread; nothing waits.
class Fragments {
 public:
  explicit Fragments(const Mapping& mapping) : mapping_(mapping) {}

  // Before commit(). False: no memory.
  bool make();

  // Bytes of the longest message.
  size_t most() const;
  // Which of the two sizes such a message takes.
  bool takes_large(size_t bytes) const { return bytes > mapping_.plan.eager().bytes(); }
  size_t capacity(const Fragment* fragment) const { return plan(fragment->is_large != 0).bytes(); }

  // Of our own, for a message of so many bytes. Null: none is free.
  Fragment* take(size_t bytes) { return list(takes_large(bytes)).get(); }
  bool has_some(bool is_large) { return list(is_large).has_some(); }
  void put(Fragment* ours) { list(ours->is_large != 0).put(ours); }
  // To whichever rank's list it belongs.
  void give_back(Fragment* fragment) const;

  Fragment* at(uint64_t offset) const { return mapping_.as<Fragment>(offset); }
  uint64_t offset_of(const Fragment* fragment) const { return mapping_.offset_of(fragment); }

  // The message in the fragment that a peer sent. RDM_SYSTEM: the offset, or what is there, cannot
  // be right.
  int open(uint64_t offset, rdm_shm_message* out) const;

 private:
  const FragmentPlan& plan(bool is_large) const {
    return is_large ? mapping_.plan.large() : mapping_.plan.eager();
  }
  FreeList& list(bool is_large) { return is_large ? large_ : eager_; }
  FreeList list_of(bool is_large, PrivateArray<Fragment*>& table);

  const Mapping& mapping_;
  PrivateArray<Fragment*> eager_table_, large_table_;  // by index
  FreeList eager_, large_;
};

}  // namespace rdmalloc::shm
