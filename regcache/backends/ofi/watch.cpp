#include "regcache/backends/ofi/watch.h"

#include <unistd.h>

#include "allocator/os/memory.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {
namespace {

constinit std::atomic<uint32_t> numbers{0};

int tell_limits(void*, rdm_backend_limits* out) {
  out->abilities = RDM_BACKEND_IN_MALLOC;
  return RDM_OK;
}

// Hands out a number and registers nothing. Regions are put off permanently, and nobody asks again.
int take_number(void*, const rdm_backend_request* request, rdm_backend_key* out, char*, size_t) {
  if (request->foreign == 0) return RDM_BACKEND_LATER;
  out->lkey = numbers.fetch_add(1, std::memory_order_relaxed);
  return RDM_OK;
}

int give_number_back(void*, const rdm_backend_key*) { return RDM_OK; }

constexpr rdm_backend kNumbers = {sizeof(rdm_backend), "ofi-watch",      tell_limits,
                                  take_number,         give_number_back, nullptr};

}  // namespace

bool OfiWatch::open() {
  ranges_ = static_cast<Range*>(os::map_metadata(kSets * kWays * sizeof(Range)));
  process_ = getpid();
  rdm_domain* domain = nullptr;
  if (ranges_ == nullptr || rdm_domain_open(&kNumbers, nullptr, nullptr, &domain) != RDM_OK) {
    return false;
  }
  domain_.store(domain, std::memory_order_release);
  return true;
}

// Gets the number of the entry that covers the range now, and puts it back at once: the entry is
// kept until the memory changes.
bool OfiWatch::ask(const void* address, size_t length, uint32_t* number) const {
  rdm_mr mr;
  rdm_domain* const domain = domain_.load(std::memory_order_acquire);
  if (domain == nullptr || rdm_get(domain, address, length, &mr) != RDM_OK) return false;
  *number = mr.lkey;
  return rdm_put(domain, &mr) == RDM_OK;
}

OfiWatch::Range* OfiWatch::set_of(const void* address) const {
  const uint64_t hash = reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15u;
  return ranges_ + (hash >> 32) % kSets * kWays;
}

OfiWatch::Range* OfiWatch::find(const void* address, size_t length) const {
  Range* const set = set_of(address);
  for (Range* range = set; range != set + kWays; ++range) {
    if (range->count != 0 && range->address == address && range->length == length) return range;
  }
  return nullptr;
}

bool OfiWatch::add(const void* address, size_t length) {
  uint32_t number = 0;
  if (!ask(address, length, &number)) return false;
  const PosixLock hold(&mutex_);
  if (Range* const range = find(address, length)) {
    const bool is_as_old = range->number == number;
    ++(is_as_old ? range->count : range->known);
    return is_as_old;
  }
  Range* const set = set_of(address);
  for (Range* range = set; range != set + kWays; ++range) {
    if (range->count != 0) continue;
    *range = {address, length, number, 1, 0};
    return true;
  }
  return false;
}

// In a child of fork, the lock may be held by a thread that does not exist; the other functions
// fail there before taking it.
void OfiWatch::remove(const void* address, size_t length) {
  if (domain_.load(std::memory_order_acquire) == nullptr || process_ != getpid()) return;
  const PosixLock hold(&mutex_);
  Range* const range = find(address, length);
  if (range != nullptr) --(range->known != 0 ? range->known : range->count);
}

bool OfiWatch::is_valid(const void* address, size_t length) {
  uint32_t number = 0;
  if (!ask(address, length, &number)) return false;
  const PosixLock hold(&mutex_);
  Range* const range = find(address, length);
  if (range == nullptr) return false;
  if (range->number == number) return true;
  --range->count;
  ++range->known;
  return false;
}

}  // namespace rdmalloc
