#include "regcache/domain/device.h"

#include "allocator/breakage.h"
#include "allocator/failure.h"
#include "allocator/mutex.h"
#include "allocator/os/memory.h"
#include "regcache/domain/in_backend.h"

namespace rdmalloc {
namespace {

void assert_may_run(const Device& device) {
  if (!device.may_run_in_malloc()) assert_no_rank();
}

// Foreign memory leaves a part to the heap, which cannot make room for itself inside malloc.
size_t most_for(const rdm_backend_limits& limits, const rdm_backend_request& request) {
  return request.foreign != 0 ? limits.max_count - limits.max_count / 4 : limits.max_count;
}

}  // namespace

int Device::open(const rdm_backend& backend, void* context, const char** why) {
  backend_ = backend;
  context_ = context;
  left_free_ = 0;
  limits_ = {};
  const InBackend here(false);
  if (const int status = backend_.limits(context, &limits_); status != RDM_OK) {
    *why = "the backend could not tell its limits";
    return status;
  }
  const size_t unit = limits_.alignment > os::page_size() ? limits_.alignment : os::page_size();
  if ((unit & (unit - 1)) != 0 || (limits_.max_length != 0 && limits_.max_length < unit)) {
    *why =
        "the backend's limits make no sense: an alignment that is no power of two, or a largest "
        "length below it";
    return RDM_INVALID;
  }
  limits_.alignment = unit;
  if (limits_.max_length == 0) limits_.max_length = SIZE_MAX;
  limits_.max_length = os::align_down(limits_.max_length, unit);
  if (limits_.max_count == 0) limits_.max_count = SIZE_MAX;
  return RDM_OK;
}

void Device::tell_closed(bool forked) {
  if (backend_.closed == nullptr) return;
  const InBackend here(may_run_in_malloc());
  backend_.closed(context_, forked ? 1 : 0);
}

// If the kernel refuses although the limit known here is not reached, because others pin memory
// too, the shortfall is unknown; making room for the whole length is always enough.
bool Device::reclaim(int charges, size_t length) {
  const size_t missing = shortfall(charges, length);
  if (missing == 0) return account_->reclaim(charges, length);
  return is_limit_raised(charges, missing) || account_->reclaim(charges, missing);
}

bool Device::is_limit_raised(int charges, size_t shortfall) {
  const bool looks = retries_->may_look() || !can_reclaim(charges, shortfall);
  return looks && retries_->look_at_limit();
}

int Device::register_memory(const rdm_backend_request& request, int charges, size_t kept,
                            rdm_backend_key* key, char* why, size_t why_size) {
  assert_may_run(*this);
  why[0] = '\0';
  // The program's own registrations go first, including rdm_get: see begin_yielding().
  const bool is_region = request.foreign == 0 && !may_run_in_malloc();
  if (is_region && account_->is_yielding()) return RDM_BACKEND_LATER;
  if (kept == 0 && count_.fetch_add(1, std::memory_order_relaxed) >= most_for(limits_, request)) {
    count_.fetch_sub(1, std::memory_order_relaxed);
    return RDM_NOT_REGISTERED;
  }
  int status = RDM_OUT_OF_BUDGET;
  const size_t more = request.length - kept;
  size_t charged = kept;
  if (more != 0 && !account_->charge(charges, more, request.foreign == 0 ? left_free() : 0)) {
    (void)fail(status,
               "the memlock limit, less the headroom left to others, does not allow to pin as much "
               "again for this domain: raise it with ulimit -l or in limits.conf, or give "
               "CAP_IPC_LOCK",
               why, why_size);
  } else {
    charged = request.length;
    const InBackend here(may_run_in_malloc());
    status = backend_.register_memory(context_, &request, key, why, why_size);
    if (status == RDM_OK) {
      why[0] = '\0';
      return RDM_OK;
    }
    // This status is reserved for the core; from a backend it is an ordinary failure.
    if (status == RDM_NOT_REGISTERED) status = RDM_SYSTEM;
    if (status == RDM_BACKEND_NEVER && request.foreign != 0) status = RDM_SYSTEM;
    if (status == RDM_BACKEND_LATER) {
      why[0] = '\0';
    } else if (why[0] == '\0') {
      (void)fail(status, "the backend gave no reason", why, why_size);
    }
  }
  give_room(charges, charged);
  if (kept != 0) retries_->note_room();
  return status;
}

void Device::give_room(int charges, size_t bytes) {
  if (bytes != 0) account_->release(charges, bytes);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

int Device::deregister_memory(size_t length, int charges, const rdm_backend_key& key,
                              bool may_ask_again, bool keeps_room) {
  assert_may_run(*this);
  const InBackend here(may_run_in_malloc());
  const int status =
      RDM_BROKEN(deregistration_is_lost) ? RDM_OK : backend_.deregister_memory(context_, &key);
  if (status == RDM_BACKEND_LATER && may_ask_again) return status;
  if (status == RDM_OK && keeps_room) return status;
  // Memory that the backend failed to deregister stays pinned and charged.
  give_room(charges, status == RDM_OK ? length : 0);
  retries_->note_room();
  return status;
}

}  // namespace rdmalloc
