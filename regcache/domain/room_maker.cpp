#include "regcache/domain/room_maker.h"

#include <algorithm>

#include "allocator/os/futex.h"
#include "regcache/domain/in_backend.h"

namespace rdmalloc {
namespace {

// Covers all domains with the same kind of charge, because they share one budget.
bool give_up_foreign(Domains& domains, int charges, size_t bytes, PinAccount::Doing doing) {
  uint64_t idle[Domains::kMost] = {};
  uint64_t missing = bytes;
  Domain* const first = domains.begin();
  const auto count = static_cast<size_t>(domains.end() - first);
  for (size_t i = 0; i < count && missing != 0; ++i) {
    const DomainParts& domain = first[i].parts();
    if (!domain.entrance.is_open() ||
        !PinAccount::makes_room_for(domain.device.limits().charges, charges))
      continue;
    idle[i] = std::min(domain.foreign->idle().bytes(missing), missing);
    missing -= idle[i];
  }
  if (missing != 0) return false;
  if (doing == PinAccount::Doing::kAsking) return true;
  for (size_t i = 0; i < count; ++i) {
    if (idle[i] != 0) (void)first[i].parts().foreign->idle().give_up(idle[i]);
  }
  return true;
}

}  // namespace

void RoomMaker::serve_domains() {
  account_->set_reclaimer(
      [](void* domains, int charges, size_t bytes, PinAccount::Doing doing) {
        return give_up_foreign(*static_cast<Domains*>(domains), charges, bytes, doing);
      },
      domains_);
}

// Starts yielding before it gives back, so that no other thread takes the room. A thread that finds
// nothing to give back while another is giving back was refused for lack of the same room, so it
// retries afterwards.
bool RoomMaker::make_room(Domain* const* domains, size_t count, uint64_t bytes,
                          bool all_or_nothing) {
  if (InBackend::is_here) return false;
  uint64_t unused = 0;
  for (size_t i = 0; i < count; ++i) unused += domains[i]->key_holds().unused_bytes();
  const bool has_others = account_->begin_yielding();
  uint64_t given = 0;
  if (unused != 0 && (unused >= bytes || !all_or_nothing)) {
    giving_back_.fetch_add(1);
    for (size_t i = 0; i < count && given < bytes; ++i) {
      given += domains[i]->key_holds().give_back(static_cast<size_t>(bytes - given));
    }
    giving_back_.fetch_sub(1);
    os::wake_all(giving_back_);
    domains_->note_registrations();
  }
  if (given == 0 && has_others) {
    os::wait_a_second(giving_back_, [](uint32_t threads) { return threads == 0; });
  }
  if (given != 0 || has_others) return true;
  end();
  return false;
}

}  // namespace rdmalloc
