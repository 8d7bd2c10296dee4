// Makes room for a registration of the program's own that libibverbs refused with ENOMEM: gives
// back what the shim's domains have registered and nobody uses, before the program learns of the
// error.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "allocator/os/thread.h"
#include "regcache/preload/verbs/domains.h"

namespace rdmalloc::shim {

// Lives in the thread that was refused, during its next try. Thread-safe; takes no lock. May change
// errno.
class Room {
 public:
  // `made`: times_made() before the first try.
  Room(const DomainTable& domains, const ibv_context* device, size_t length, uint64_t made);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // How often room was made, by any thread.
  static uint64_t times_made();

  // False: there is nothing to give back, nor was there since the first try; or it did not help
  // lately.
  bool is_made() const { return is_made_; }

  // The registration was refused once more. For some time nothing is given back for registrations
  // of that length or longer, unless note_more() reports a change: what was given back is
  // registered again when it is asked for, and a program may retry forever.
  void was_in_vain() const;

  // The program has deregistered something, or giving back helped.
  static void note_more();

 private:
  const os::NoCancel no_cancel_;  // giving back must not stop halfway
  const size_t length_;
  bool is_mine_ = false;  // this thread must end it
  bool is_made_ = false;
};

}  // namespace rdmalloc::shim
