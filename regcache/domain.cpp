#include "regcache/domain.h"

#include <stddef.h>
#include <string.h>

#include <type_traits>

#include "allocator/message.h"
#include "allocator/os/clock.h"
#include "allocator/os/futex.h"
#include "allocator/os/memory.h"
#include "allocator/os/thread.h"
#include "include/rdmalloc/inline.h"

extern "C" const char rdm_lookup_layout_1 = 1;

namespace rdmalloc {

// What include/rdmalloc/inline.h compiles into programs. When one of these fails, give the layout
// another number.
struct InlineLayout {
  using Head = rdm_lookup_head_;
  static_assert(std::is_standard_layout_v<Domain>);
  static_assert(offsetof(Domain, window_base_) == offsetof(Head, window));
  static_assert(offsetof(Domain, window_size_) == offsetof(Head, window_size));
  static_assert(offsetof(Domain, by_granule_) == offsetof(Head, entry_by_granule));
  static_assert(offsetof(Domain, entries_) == offsetof(Head, entries));
  using Entry = rdm_lookup_entry_;
  static_assert(sizeof(KeyEntry) == sizeof(Entry));
  static_assert(offsetof(KeyEntry, length) == offsetof(Entry, length));
  static_assert(offsetof(KeyEntry, base) == offsetof(Entry, base));
  static_assert(offsetof(KeyEntry, keys) == offsetof(Entry, lkey));
  static_assert(offsetof(KeyEntry, handle) == offsetof(Entry, handle));
  static_assert(Window::kGranuleShift == 21);
};

namespace {

constexpr unsigned kRemote = RDM_REMOTE_WRITE | RDM_REMOTE_READ | RDM_REMOTE_ATOMIC;

// A region that was refused is tried again by a lookup, but not by every one: the refusal of a
// limit lasts, and costs a system call each time.
constexpr uint64_t kRetryNs = 100'000'000;

// While a backend asks to come later: a fork of a large heap takes that long.
constexpr uint64_t kLongestWaitNs = 5'000'000'000;
constexpr uint64_t kWaitStepNs = 200'000;

}  // namespace

int Domain::open(const rdm_backend& backend, void* context, unsigned access, unsigned flags,
                 const RegionSource& source, PinAccount* account, DomainCounters* counters) {
  why_[0] = '\0';
  opening_ = true;
  warned_ = false;
  limits_ = {};
  backend_ = backend;
  if (const int status = backend_.limits(context, &limits_); status != RDM_OK) {
    say("the backend could not tell its limits");
    return status;
  }
  const size_t unit = limits_.alignment > os::kPageSize ? limits_.alignment : os::kPageSize;
  if ((unit & (unit - 1)) != 0 || (limits_.max_length != 0 && limits_.max_length < unit)) {
    say("the backend's limits make no sense: an alignment that is no power of two, or a largest "
        "length below it");
    return RDM_INVALID;
  }
  limits_.alignment = unit;
  if (limits_.max_length == 0) limits_.max_length = SIZE_MAX;
  limits_.max_length &= ~(unit - 1);
  if (limits_.max_count == 0) limits_.max_count = SIZE_MAX;
  if (entries_ == nullptr) {
    const size_t bytes = (source.regions().capacity() + 1) * sizeof(KeyEntry);
    entries_ = static_cast<KeyEntry*>(os::map_metadata(bytes));
    if (entries_ == nullptr) return RDM_SYSTEM;
  }
  context_ = context;
  access_ = access == 0 ? unsigned{RDM_LOCAL_WRITE} : access;
  share_heap_ = (flags & RDM_DOMAIN_SHARE_HEAP) != 0;
  if (source_ == nullptr) {
    // The same for every use of this domain, and read by lookups that come too late.
    source_ = &source;
    account_ = account;
    counters_ = counters;
    by_granule_ = source.regions().by_granule();
    window_base_ = source.window().base();
    window_size_ = source.window().size();
  }
  phase_.store(Phase::kOpen, std::memory_order_seq_cst);
  return RDM_OK;
}

// A thread that enters is seen by close(), or sees that the domain is closed: both sides write
// first and then read, in one order for all.
bool Domain::enter() {
  // First without a write: threads that go on looking up while it is closed must not hold it up.
  if (!is_open()) return false;
  registering_.fetch_add(1, std::memory_order_seq_cst);
  if (phase_.load(std::memory_order_seq_cst) == Phase::kOpen) return true;
  leave();
  return false;
}

void Domain::leave() {
  if (registering_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      phase_.load(std::memory_order_seq_cst) == Phase::kClosing) {
    os::wake_all(registering_);
  }
}

// What is paged on demand is not pinned.
int Domain::charges_for(const Region& region) const {
  return region.kind == RegionKind::kPinned ? limits_.charges : int{RDM_CHARGES_NOTHING};
}

bool Domain::takes(const Region& region) const {
  return region.kind == RegionKind::kPinned || (limits_.abilities & RDM_BACKEND_ON_DEMAND) != 0;
}

unsigned Domain::access_for(const Region& region) const {
  return region.exposed || share_heap_ ? access_ : access_ & ~kRemote;
}

int Domain::register_region(const Region& region, Caller caller) {
  if (!enter()) return RDM_NOT_REGISTERED;
  const int status = register_entered(region, caller);
  leave();
  return status;
}

int Domain::register_entered(const Region& region, Caller caller) {
  if (!takes(region)) return RDM_OK;
  if (caller == Caller::kMalloc && !may_run_in_malloc()) return RDM_BACKEND_LATER;
  KeyEntry& entry = entry_of(region);
  uint64_t waited_ns = 0;
  for (;;) {
    uint32_t state = entry.state.load(std::memory_order_acquire);
    if (state == kRegistered) return RDM_OK;
    if (state == kRefused && os::now_ns() - entry.refused_at < kRetryNs) return entry.refusal;
    if (state == kBusy) {
      if (caller != Caller::kLookup) return RDM_NOT_REGISTERED;
      os::wait_while(entry.state, kBusy);
    } else if (is_put_off()) {
      return RDM_BACKEND_LATER;
    } else if (entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel)) {
      const int status = register_claimed(region, entry);
      os::wake_all(entry.state);
      if (status != RDM_BACKEND_LATER) return status;
      if (!waits_for_backend(caller, &waited_ns)) return status;
    }
  }
}

// A backend that runs in malloc puts a thread off for good, such as one that does not issue to a
// single-issuer ring: asking it again at each lookup would cost a system call. One that does not
// is at work again soon, after a fork.
bool Domain::is_put_off() const {
  return may_run_in_malloc() && put_off_thread_ == static_cast<uintptr_t>(pthread_self()) &&
         os::now_ns() - put_off_at_ < kRetryNs;
}

bool Domain::waits_for_backend(Caller caller, uint64_t* waited_ns) {
  if (may_run_in_malloc()) {
    put_off_thread_ = static_cast<uintptr_t>(pthread_self());
    put_off_at_ = os::now_ns();
    return false;
  }
  if (caller != Caller::kLookup || *waited_ns >= kLongestWaitNs) return false;
  const std::atomic<uint32_t> nothing{0};
  os::wait_while_for(nothing, 0, kWaitStepNs);
  *waited_ns += kWaitStepNs;
  return true;
}

// The entry's state is kBusy, by this thread.
int Domain::register_claimed(const Region& region, KeyEntry& entry) {
  os::NoCancel no_cancel;
  const uint64_t started = os::now_ns();
  const size_t length = region.length & ~(limits_.alignment - 1);
  const int status = length <= limits_.max_length ? register_whole(region, entry, length)
                                                  : register_pieces(region, entry, length);
  counters_->registration_ns.fetch_add(os::now_ns() - started, std::memory_order_relaxed);
  if (status != RDM_OK) return refuse(entry, status);
  entry.state.store(kRegistered, std::memory_order_release);
  return RDM_OK;
}

int Domain::refuse(KeyEntry& entry, int status) {
  entry.refusal = status;
  entry.refused_at = os::now_ns();
  entry.state.store(status == RDM_BACKEND_LATER ? kUnregistered : kRefused,
                    std::memory_order_release);
  return status;
}

int Domain::register_whole(const Region& region, KeyEntry& entry, size_t length) {
  if (length == 0) return RDM_OK;  // below the device's alignment
  rdm_backend_key key{};
  const int status = register_range(region, 0, length, &key);
  // What the device has no MR for stays unregistered; that is a limit, not a failure.
  if (status == RDM_NOT_REGISTERED) return RDM_OK;
  if (status == RDM_OK) entry.publish(region.base, length, key);
  return status;
}

int Domain::register_pieces(const Region& region, KeyEntry& entry, size_t length) {
  const size_t count = (length + limits_.max_length - 1) / limits_.max_length;
  if (!make_room_for_pieces(entry, count)) {
    say("no memory for bookkeeping");
    return RDM_SYSTEM;
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t offset = i * limits_.max_length;
    const size_t rest = length - offset;
    const size_t bytes = rest < limits_.max_length ? rest : limits_.max_length;
    Piece& piece = entry.piece[i];
    piece = {};
    const int status = register_range(region, offset, bytes, &piece.key);
    if (status == RDM_OK) piece.length = bytes;
    if (status == RDM_OK || status == RDM_NOT_REGISTERED) continue;
    while (i-- > 0) {
      if (entry.piece[i].length != 0)
        (void)deregister_range(region, entry.piece[i].length, entry.piece[i].key);
    }
    return status;
  }
  entry.pieces = static_cast<uint32_t>(count);
  return RDM_OK;
}

bool Domain::make_room_for_pieces(KeyEntry& entry, size_t count) {
  if (entry.piece_room >= count) return true;
  void* memory = os::map_metadata(count * sizeof(Piece));
  if (memory == nullptr) return false;
  entry.piece = static_cast<Piece*>(memory);
  entry.piece_room = static_cast<uint32_t>(count);
  return true;
}

// The one door to register_memory(). RDM_NOT_REGISTERED: the device may have no more MRs.
int Domain::register_range(const Region& region, size_t offset, size_t length,
                           rdm_backend_key* key) {
  assert_backend_may_run();
  if (count_.fetch_add(1, std::memory_order_relaxed) >= limits_.max_count) {
    count_.fetch_sub(1, std::memory_order_relaxed);
    return RDM_NOT_REGISTERED;
  }
  int status = RDM_OUT_OF_BUDGET;
  if (!account_->charge(charges_for(region), length)) {
    say("the memlock limit, less the headroom left to others, does not allow to pin as much again "
        "for this domain: raise it with ulimit -l or in limits.conf, or give CAP_IPC_LOCK");
  } else {
    rdm_backend_request request{};
    request.base = reinterpret_cast<void*>(region.base + offset);
    request.length = length;
    request.page_size =
        region.page_kind == os::PageKind::kHugetlb ? os::kHugePageSize : os::kPageSize;
    request.access = access_for(region);
    request.pinned = region.kind == RegionKind::kPinned ? 1 : 0;
    request.exposed = region.exposed ? 1 : 0;
    request.node = region.node;
    char why[kLongestWhy] = {};
    status = backend_.register_memory(context_, &request, key, why, sizeof why);
    if (status == RDM_OK) {
      counters_->registrations.fetch_add(1, std::memory_order_relaxed);
      counters_->registered_bytes.fetch_add(length, std::memory_order_relaxed);
      return RDM_OK;
    }
    // This status is the core's own; from a backend it is a failure like any other.
    if (status == RDM_NOT_REGISTERED) status = RDM_SYSTEM;
    account_->release(charges_for(region), length);
    if (status != RDM_BACKEND_LATER) say(why[0] != '\0' ? why : "the backend gave no reason");
  }
  count_.fetch_sub(1, std::memory_order_relaxed);
  return status;
}

// The one door to deregister_memory().
int Domain::deregister_range(const Region& region, size_t length, const rdm_backend_key& key) {
  assert_backend_may_run();
  const int status = backend_.deregister_memory(context_, &key);
  count_.fetch_sub(1, std::memory_order_relaxed);
  counters_->registered_bytes.fetch_sub(length, std::memory_order_relaxed);
  // What the backend did not let go of stays pinned, and charged.
  if (status == RDM_OK) account_->release(charges_for(region), length);
  return status;
}

int Domain::deregister(const Region& region) {
  KeyEntry& entry = entry_of(region);
  const size_t length = entry.length.exchange(0, std::memory_order_acq_rel);
  const uint32_t pieces = entry.pieces;
  entry.pieces = 0;
  entry.state.store(kUnregistered, std::memory_order_release);
  int result = RDM_OK;
  if (length != 0 && deregister_range(region, length, entry.key()) != RDM_OK) {
    result = RDM_SYSTEM;
  }
  for (uint32_t i = pieces; i-- > 0;) {
    const Piece& piece = entry.piece[i];
    if (piece.length != 0 && deregister_range(region, piece.length, piece.key) != RDM_OK) {
      result = RDM_SYSTEM;
    }
  }
  return result;
}

int Domain::close(bool tell_backend) {
  const bool forked = phase_.load(std::memory_order_acquire) == Phase::kForked;
  int result = RDM_OK;
  if (!forked) {
    phase_.store(Phase::kClosing, std::memory_order_seq_cst);
    for (;;) {
      const uint32_t others = registering_.load(std::memory_order_seq_cst);
      if (others == 0) break;
      os::wait_while(registering_, others);
    }
    for (size_t i = source_->regions().size(); i-- > 0;) {
      if (deregister(source_->regions()[i]) != RDM_OK) result = RDM_SYSTEM;
    }
  }
  if (tell_backend && backend_.closed != nullptr) backend_.closed(context_, forked ? 1 : 0);
  count_ = 0;
  phase_.store(Phase::kFree, std::memory_order_release);
  return result;
}

// Threads that were registering are gone with their parent.
void Domain::note_fork_child() {
  if (!is_in_use()) return;
  phase_ = Phase::kForked;
  registering_ = 0;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    KeyEntry& entry = entry_of(source_->regions()[i]);
    entry.length = 0;
    entry.pieces = 0;
    entry.state = kUnregistered;
  }
}

int Domain::miss(int status) {
  counters_->lookups.count();
  counters_->misses.fetch_add(1, std::memory_order_relaxed);
  return status;
}

int Domain::lookup_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out) {
  if (domain == nullptr || out == nullptr) return RDM_INVALID;
  return domain->find_or_register(address, length, out);
}

int Domain::find_or_register(const void* address, size_t length, rdm_mr* out) {
  if (!enter()) return is_in_use() ? miss(RDM_NOT_REGISTERED) : RDM_INVALID;
  const int status = lookup_entered(address, length, out);
  leave();
  return status;
}

int Domain::lookup_entered(const void* address, size_t length, rdm_mr* out) {
  if (length == 0) return miss(RDM_INVALID);
  const Region* region = source_->regions().find(address);
  if (region == nullptr || length > region->end() - reinterpret_cast<uintptr_t>(address)) {
    return miss(RDM_NOT_OWNED);
  }
  if (register_entered(*region, Caller::kLookup) != RDM_OK) return miss(RDM_NOT_REGISTERED);
  const KeyEntry& entry = entry_of(*region);
  const size_t registered = entry.length.load(std::memory_order_acquire);
  if (registered == 0) return lookup_piece(*region, address, length, out);
  const size_t into = reinterpret_cast<uintptr_t>(address) - region->base;
  if (into >= registered || length > registered - into) return miss(RDM_NOT_REGISTERED);
  fill(reinterpret_cast<void*>(region->base), registered, entry.key(), out);
  counters_->lookups.count();
  return RDM_OK;
}

int Domain::lookup_piece(const Region& region, const void* address, size_t length, rdm_mr* out) {
  const KeyEntry& entry = entry_of(region);
  const size_t into = reinterpret_cast<uintptr_t>(address) - region.base;
  const size_t index = into / limits_.max_length;
  if (index >= entry.pieces) return miss(RDM_NOT_REGISTERED);
  const Piece& piece = entry.piece[index];
  const size_t start = index * limits_.max_length;
  const size_t inside = into - start;
  if (inside >= piece.length || length > piece.length - inside) return miss(RDM_NOT_REGISTERED);
  fill(reinterpret_cast<void*>(region.base + start), piece.length, piece.key, out);
  counters_->lookups.count();
  return RDM_OK;
}

// May run inside malloc.
void Domain::say(const char* why) {
  if (saying_.exchange(true, std::memory_order_acquire)) return;
  strncpy(why_, why, sizeof why_ - 1);
  saying_.store(false, std::memory_order_release);
  if (!opening_) warn();
}

void Domain::end_opening() {
  opening_ = false;
  if (why_[0] != '\0') warn();
}

// Once for a domain: what fails later mostly fails for the same reason.
void Domain::warn() {
  if (!source_->warns() || warned_.exchange(true)) return;
  Message()
      .add("rdmalloc: memory could not be registered with ")
      .add(backend_.name)
      .add(": ")
      .add(why_)
      .add(" (RDMALLOC_WARN=off silences this)")
      .send();
}

bool Domain::validate(const RegionTable& regions) const {
  if (!is_open()) return true;
  size_t count = 0;
  for (size_t i = 0; i < regions.size(); ++i) {
    const KeyEntry& entry = entry_of(regions[i]);
    const size_t length = entry.length.load();
    const uint32_t state = entry.state.load();
    if (state == kBusy) return false;
    if (state != kRegistered && (length != 0 || entry.pieces != 0)) return false;
    if (length != 0 && (entry.pieces != 0 || entry.base != regions[i].base)) return false;
    if (length > regions[i].length) return false;
    count += length != 0 ? 1 : 0;
    for (uint32_t p = 0; p < entry.pieces; ++p) count += entry.piece[p].length != 0 ? 1 : 0;
  }
  return entries_[0].length == 0 && count == count_.load() && count <= limits_.max_count;
}

}  // namespace rdmalloc
