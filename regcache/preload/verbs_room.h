// Room for a registration of the program's own that libibverbs refused with ENOMEM: what the shim's
// domains have registered and nobody uses is given back for it, before the program hears of the
// error.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "allocator/os/thread.h"
#include "regcache/preload/verbs_domains.h"

namespace rdmalloc::shim {

// In the thread that was refused, for the time of its next try. Thread-safe; takes no lock. Sets
// errno to anything.
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

  // It was refused once more. Registrations of that length and longer find nothing given back for
  // some time, unless note_more() says that things have changed: what was given back comes back
  // when it is asked for, and a program may try for ever.
  void was_in_vain() const;

  // The program has deregistered something, or giving back helped.
  static void note_more();

 private:
  const os::NoCancel no_cancel_;  // who gives back must come to the end of it
  const size_t length_;
  bool is_mine_ = false;  // this thread's to end
  bool is_made_ = false;
};

}  // namespace rdmalloc::shim
