#pragma once

#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/backend.h"

namespace rdmalloc {

// How a cache registers: what it uses of its domain.
class ForeignDevice {
 public:
  // Both return statuses of rdmalloc.h and backend.h; RDM_NOT_REGISTERED: the device may have no
  // more memory regions. On failure `why` gets a sentence.
  //
  // `keeps_room`: when it is gone, what it took of limits stays taken, for the next registration,
  // which is no shorter and passes its length as `kept` (else 0). It is free if that one fails.
  virtual int register_foreign(uintptr_t base, size_t length, size_t kept, rdm_backend_key* key,
                               char* why, size_t why_size) = 0;
  virtual int deregister_foreign(size_t length, const rdm_backend_key& key, bool keeps_room) = 0;

  // Inside malloc, after a change: something is left to deregister_idle().
  virtual void put_off() = 0;

  // Whether other caches with the same budget gave up enough to register this many bytes; and
  // whether giving up everything idle, here and there, would be enough.
  virtual bool reclaim(size_t length) = 0;
  virtual bool may_reclaim(size_t length) = 0;

  // Whether later gets may find a registration of this range. False: it is for one use.
  virtual bool may_keep(uintptr_t base, size_t length) {
    (void)base;
    (void)length;
    return true;
  }

  // Whether registrations of memory there are for current users only: not watched, shared by those
  // who ask while somebody uses them, and ended with their last user.
  virtual bool is_for_users_only(uintptr_t base) {
    (void)base;
    return false;
  }

  virtual size_t alignment() const = 0;   // bytes; a power of two, at least a page
  virtual size_t max_length() const = 0;  // bytes of one registration
  virtual bool may_run_in_malloc() const = 0;
  // Whether memory stays pinned, and charged, for up to a second after it was deregistered.
  virtual bool unpins_late() const = 0;

 protected:
  ~ForeignDevice() = default;
};

}  // namespace rdmalloc
