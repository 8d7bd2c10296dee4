// The buffers that a pool reserves at creation, or else fails to be created.
#include "allocator/limits/holders.h"
#include "regcache/pool/pool_growth.h"
#include "regcache/pool/pool_memory.h"

namespace rdmalloc {
namespace {

// The reserve is taken in steps of this length, or of one buffer if that is longer. So a reserve
// that exceeds the limits is refused before all of it was taken, and the message says how far it
// got.
constexpr size_t kReserveStep = size_t{4} << 20;
constexpr size_t kLongestCause = 400;

}  // namespace

// A reserve that can never fit is not tried: that would populate and pin all available memory.
int PoolGrowth::take_reserve(Message* reason) {
  if (settings_.reserve == 0) return RDM_OK;
  const rdm_stats books = memory_.stats();
  const size_t needed = settings_.reserve * stride();
  const bool must_be_pinned =
      (settings_.flags & RDM_EXPOSED) != 0 ||
      (settings_.domain != nullptr && memory_.takes_pinned_only(settings_.domain));
  if (must_be_pinned && needed > books.budget_bytes) {
    reason->add("no more than ").add_size(books.budget_bytes).add(" may be pinned");
    return RDM_OUT_OF_BUDGET;
  }
  if (needed > books.memory_cap_bytes) {
    reason->add("no more than ").add_size(books.memory_cap_bytes).add(" may be held");
    return RDM_OUT_OF_BUDGET;
  }
  const size_t step = kReserveStep > stride() ? kReserveStep / stride() : 1;
  int status = RDM_OK;
  while (status == RDM_OK && shelves_.held() < settings_.reserve) {
    const size_t missing = settings_.reserve - shelves_.held();
    status = add_chunk_or_less(missing < step ? missing : step, reason);
  }
  return status;
}

int PoolGrowth::fill_reserve(Message* why) {
  Message reason;
  const int status = take_reserve(&reason);
  if (status == RDM_OK) return status;
  char cause[kLongestCause];
  reason.copy_to(cause, sizeof cause);
  why->add("needs ").add_number(settings_.reserve * stride());
  why->add(settings_.domain == nullptr ? " bytes for " : " bytes registered for ");
  why->add_number(settings_.reserve)
      .add(" buffers, and got ")
      .add_number(shelves_.held() * stride());
  why->add(": ").add(cause).add("; ");
  say_who_holds_memory(memory_.stats(), why);
  return status;
}

}  // namespace rdmalloc
