// Gives back what domains have registered and nobody uses, when somebody lacks room under the
// memlock limit or on a device: the program itself, or another domain.
//
// Takes no lock. Any thread; calls the domains' backends, so never inside malloc. In a child of
// fork nobody makes room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/domain/domains.h"

namespace rdmalloc {

class RoomMaker {
 public:
  constexpr RoomMaker(Domains* domains, PinAccount* account)
      : domains_(domains), account_(account) {}
  RoomMaker(const RoomMaker&) = delete;
  RoomMaker& operator=(const RoomMaker&) = delete;

  // Called after the program's own registration was refused for lack of room: gives back so many
  // bytes of these domains' registrations that nobody uses (KeyHolds). False: there is nothing to
  // give back, or with `all_or_nothing` not so much; or the registration is one of ours, made
  // inside a driver. True: try it once more and then call end(). Until then domains register no
  // region. Waits only for another thread that is giving back, and for the registrar, at most a
  // second each.
  bool make_room(Domain* const* domains, size_t count, uint64_t bytes, bool all_or_nothing);
  void end() { account_->end_yielding(); }

  // From now on domains that lack room get it from idle foreign memory of others.
  void serve_domains();

  void note_fork_child() { giving_back_ = 0; }

 private:
  Domains* const domains_;
  PinAccount* const account_;
  std::atomic<uint32_t> giving_back_{0};  // threads
};

}  // namespace rdmalloc
