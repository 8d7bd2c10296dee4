#include "regcache/domain/registry.h"

#include <stddef.h>
#include <string.h>

#include <algorithm>
#include <new>

#include "allocator/failure.h"
#include "allocator/last_error.h"
#include "allocator/message.h"
#include "allocator/os/futex.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/thread.h"
#include "regcache/caller_struct.h"
#include "regcache/domain/round_threads.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {
namespace {

constexpr unsigned kKnownFlags = RDM_DOMAIN_SHARE_HEAP | RDM_DOMAIN_PARTIAL |
                                 RDM_DOMAIN_LEAVE_NOTHING_PINNED | RDM_DOMAIN_DO_NOT_WAIT |
                                 RDM_DOMAIN_WHEN_ASKED | RDM_DOMAIN_CALLERS_ONLY |
                                 RDM_DOMAIN_RELEASE_AT_FORK | RDM_DOMAIN_NAMED_ONLY;
constexpr unsigned kKnownAccess =
    RDM_LOCAL_WRITE | RDM_REMOTE_WRITE | RDM_REMOTE_READ | RDM_REMOTE_ATOMIC;

// A device takes some milliseconds for so much, and a thread starts in a hundredth of that.
constexpr size_t kWorthAThread = size_t{32} << 20;

bool are_sound(const rdm_domain_options& options) {
  return (options.flags & ~kKnownFlags) == 0 && (options.access & ~kKnownAccess) == 0;
}

bool is_complete(const rdm_backend* backend) {
  return backend->name != nullptr && backend->limits != nullptr &&
         backend->register_memory != nullptr && backend->deregister_memory != nullptr;
}

int fail(const rdm_domain_options& options, const char* why, int status) {
  return rdmalloc::fail(status, why, options.error, options.error_size);
}

}  // namespace

Domain* Registry::find_free() {
  for (size_t i = 0; i < kMaxDomains; ++i) {
    Domain& domain = domains_[(next_ + i) % kMaxDomains];
    if (domain.is_in_use()) continue;
    next_ = (next_ + i + 1) % kMaxDomains;
    return &domain;
  }
  return nullptr;
}

Registry::Foreign* Registry::foreign_of(Domain* domain) {
  std::atomic<Foreign*>& place = foreign_[domain - domains_];
  if (Foreign* const known = place.load(std::memory_order_relaxed)) return known;
  void* const memory = os::map_metadata(sizeof(Foreign));
  if (memory == nullptr) return nullptr;
  Foreign* const made = new (memory) Foreign();
  made->device.bind(domain, &registrar_);
  domain->set_foreign(&made->cache);
  place.store(made, std::memory_order_release);
  return made;
}

void Registry::open_foreign(Foreign* foreign, const rdm_domain_options& options) {
  const ForeignDefaults defaults = source_->foreign();
  ForeignSettings settings;
  settings.limits.leave_pinned =
      defaults.leave_pinned && (options.flags & RDM_DOMAIN_LEAVE_NOTHING_PINNED) == 0;
  settings.limits.bytes = options.foreign_bytes != 0 ? options.foreign_bytes : defaults.bytes;
  settings.limits.count = options.foreign_count != 0 ? options.foreign_count : defaults.count;
  settings.wait_ms = options.foreign_wait_ms;
  settings.wish = defaults.monitor;
  foreign->cache.open(settings, &foreign->device);
}

int Registry::open(const rdm_backend* given_backend, void* context,
                   const rdm_domain_options* given_options, Domain** out) {
  rdm_domain_options options;
  rdm_backend backend;
  if (out == nullptr || !read_options(given_options, &options)) return RDM_INVALID;
  if (!are_sound(options)) {
    return fail(options, "flags or access have bits that are not known here", RDM_INVALID);
  }
  if (!read_struct(given_backend, offsetof(rdm_backend, closed), &backend)) {
    return fail(options, "the backend's table lacks its size: set it to sizeof(rdm_backend)",
                RDM_INVALID);
  }
  if (!is_complete(&backend)) {
    return fail(options, "the backend's table lacks a name or an operation", RDM_INVALID);
  }
  if (Domain::is_in_backend()) {
    return fail(
        options,
        "a domain cannot be opened from inside a registration of another domain: open it before",
        RDM_BUSY);
  }
  // Attach before taking the lock: once attached, a forked child resets the lock.
  if (!ok(source_->attach(this))) {
    return fail(options, "the heap has no room for an observer", RDM_SYSTEM);
  }
  if ((options.flags & RDM_DOMAIN_RELEASE_AT_FORK) != 0) {
    source_->call_before_forks([](void* self) { static_cast<Registry*>(self)->release_for_fork(); },
                               this);
  }
  os::NoCancel no_cancel;
  if ((options.flags & RDM_DOMAIN_DO_NOT_WAIT) == 0) {
    const PosixLock hold(&mutex_, LockRank::kOuter);
    return open_locked(backend, context, options, out);
  }
  const PosixLock hold(&mutex_, LockRank::kOuter, PosixLock::Try());
  if (hold.is_held()) return open_locked(backend, context, options, out);
  return fail(options, "another thread is opening or closing a domain: try again", RDM_BUSY);
}

int Registry::open_locked(const rdm_backend& backend, void* context,
                          const rdm_domain_options& options, Domain** out) {
  Domain* domain = find_free();
  if (domain == nullptr) return fail(options, "too many domains are open: close one", RDM_BUSY);
  Foreign* const foreign = foreign_of(domain);
  if (foreign == nullptr) return fail(options, "no memory for bookkeeping", RDM_SYSTEM);
  changes.attach(this);
  (void)retries_.look_at_limit();
  account_.set_reclaimer(
      [](void* self, int charges, size_t bytes, PinAccount::Doing doing) {
        return static_cast<Registry*>(self)->give_up(charges, bytes, doing);
      },
      this);
  int status = domain->open(backend, context, options.access, options.flags, *source_, &account_,
                            &retries_, &counters_);
  if (status != RDM_OK) return fail(options, domain->why(), status);
  open_foreign(foreign, options);
  if (needs_registrar()) (void)start_registrar();
  status = replay(domain, (options.flags & RDM_DOMAIN_PARTIAL) != 0);
  if (status != RDM_OK) {
    (void)domain->close(false);
    if (!needs_registrar()) registrar_.stop();
    return fail(options, domain->why(), status);
  }
  domain->end_opening();
  warn_of_forks(*domain, options.flags);
  // Wakes the registrar for what is still missing of a partially opened domain.
  retries_.note_work();
  note_registrations();
  *out = domain;
  return RDM_OK;
}

// Warns once per process, whichever domain is affected.
void Registry::warn_of_forks(const Domain& domain, unsigned flags) {
  const rdm_backend_limits& limits = domain.limits();
  const bool is_pinned =
      limits.charges != RDM_CHARGES_NOTHING || (limits.abilities & RDM_BACKEND_ON_DEMAND) == 0;
  const bool is_concerned = is_pinned && (flags & RDM_DOMAIN_RELEASE_AT_FORK) == 0;
  if (!is_concerned || !source_->warns() || source_->copies_pinned_at_fork()) return;
  static constinit std::atomic<bool> has_warned{false};
  if (has_warned.exchange(true)) return;
  Message()
      .add(
          "rdmalloc: fork takes registered memory from this process: the kernel does not copy "
          "pinned pages (Linux 5.12 does), and what is written while a child lives leaves its "
          "registration; "
          "start children by posix_spawn or vfork, or open domains with "
          "RDM_DOMAIN_RELEASE_AT_FORK (RDMALLOC_WARN=off silences this)")
      .send();
}

// Registers the existing regions. A region acquired meanwhile is seen either here or by on_ready():
// whichever thread reaches meeting_ second sees what the other wrote before. What comes while the
// existing ones are registered is left to the second look, which finds it all but done.
int Registry::replay(Domain* domain, bool partial) {
  const bool is_wanted = !domain->registers_when_asked();
  int status = is_wanted ? replay_once(domain, partial) : int{RDM_OK};
  domain->end_replay();
  if (is_wanted && status == RDM_OK && domain->may_run_in_malloc()) {
    status = replay_once(domain, partial);
  }
  retire_leftovers();
  return status;
}

int Registry::replay_once(Domain* domain, bool partial) {
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    // A partially opened domain leaves to the registrar whatever it would have to wait for.
    const auto caller = partial ? Domain::Caller::kRegistrar : Domain::Caller::kLookup;
    const Region& region = source_->regions()[i];
    if (region.is_empty() || region.by_touch) continue;
    const int status = domain->register_region(region, caller);
    if (status == RDM_OK || partial) continue;
    // A backend that runs in malloc has put this thread off permanently.
    if (status == RDM_BACKEND_LATER && domain->may_run_in_malloc()) continue;
    return status == RDM_BACKEND_LATER ? int{RDM_SYSTEM} : status;
  }
  return RDM_OK;
}

bool Registry::is_domain(const Domain* domain) const {
  for (const Domain& known : domains_) {
    if (&known == domain) return known.is_in_use();
  }
  return false;
}

bool Registry::start_registrar() {
  return registrar_.start([](void* self) { return static_cast<Registry*>(self)->work(); }, this);
}

// While a domain is being opened or closed, the registrar is not started for other domains.
bool Registry::wake_registrar(bool may_start) {
  if (!may_start || registrar_.is_started()) {
    registrar_.poke();
    return true;
  }
  if (pthread_mutex_trylock(&mutex_) != 0) return false;
  const bool is_started = start_registrar();
  pthread_mutex_unlock(&mutex_);
  return is_started;
}

bool Registry::needs_registrar() const {
  for (const Domain& domain : domains_) {
    if (domain.is_open() && !domain.may_run_in_malloc() && !domain.is_callers_only()) return true;
  }
  return false;
}

int Registry::close(Domain* domain) {
  if (Domain::is_in_backend()) {
    return rdmalloc::fail(RDM_BUSY,
                          "this was called from inside a registration: call it afterwards");
  }
  os::NoCancel no_cancel;
  PosixLock hold(&mutex_, LockRank::kOuter);
  if (!is_domain(domain)) return rdmalloc::fail(RDM_INVALID, "this is no open domain");
  const int status = domain->close(true);
  if (status == RDM_BUSY) return status;
  if (status != RDM_OK) {
    (void)rdmalloc::fail(status, "the device did not deregister all memory, the domain is closed");
  }
  if (!needs_registrar()) registrar_.stop();
  retries_.note_event();
  note_registrations();
  return status;
}

uint64_t Registry::count_open() const noexcept {
  uint64_t open = 0;
  for (const Domain& domain : domains_) open += domain.is_open() ? 1 : 0;
  return open;
}

void Registry::note_registrations() noexcept {
  RegistrationCounters all;
  add_to(&all);
  source_->note_registrations(all.domains, all.registered_bytes, all.registered_pinned_bytes);
}

bool Registry::wants_pages(const Region& region) const noexcept {
  if (region.by_touch) return false;
  for (const Domain& domain : domains_) {
    if (domain.wants_pages(region)) return true;
  }
  return false;
}

void Registry::on_ready(const Region& region) noexcept {
  os::KeepErrno keep_errno;
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  bool is_for_registrar = false;
  for (Domain& domain : domains_) {
    if (!domain.is_open()) continue;
    const int status = domain.register_region(region, Domain::Caller::kMalloc);
    is_for_registrar = is_for_registrar || status == RDM_BACKEND_LATER;
  }
  if (is_for_registrar) registrar_.poke();
  retire_leftovers();
  note_registrations();
}

// Only backends that run in malloc are called. False: some domain still keeps a part of the region.
bool Registry::retire_everywhere(const Region& region) noexcept {
  for (Domain& domain : domains_) domain.retire_region(region, Domain::Caller::kMalloc);
  return has_let_go(region);
}

void Registry::on_retire(const Region& region) noexcept {
  os::KeepErrno keep_errno;
  if (retire_everywhere(region)) return;
  has_leftovers_ = true;
  registrar_.poke();
}

// Retires what backends put off when the region was retired.
void Registry::retire_leftovers() noexcept {
  if (!has_leftovers_.exchange(false)) return;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    const Region& region = source_->regions()[i];
    if (region.is_empty() && !retire_everywhere(region)) has_leftovers_ = true;
  }
}

bool Registry::has_let_go(const Region& region) const noexcept {
  for (const Domain& domain : domains_) {
    if (domain.keeps(region)) return false;
  }
  return true;
}

// Covers all domains with the same kind of charge, because they share one budget.
bool Registry::give_up(int charges, size_t bytes, PinAccount::Doing doing) {
  uint64_t idle[kMaxDomains] = {};
  uint64_t missing = bytes;
  for (size_t i = 0; i < kMaxDomains && missing != 0; ++i) {
    const Domain& domain = domains_[i];
    if (!domain.is_open() || !PinAccount::makes_room_for(domain.limits().charges, charges))
      continue;
    idle[i] = std::min(domain.foreign().idle().bytes(missing), missing);
    missing -= idle[i];
  }
  if (missing != 0) return false;
  if (doing == PinAccount::Doing::kAsking) return true;
  for (size_t i = 0; i < kMaxDomains; ++i) {
    if (idle[i] != 0) (void)domains_[i].foreign().idle().give_up(idle[i]);
  }
  return true;
}

// Starts yielding before it gives back, so that no other thread takes the room. A thread that finds
// nothing to give back while another is giving back was refused for lack of the same room, so it
// retries afterwards.
bool Registry::make_room(Domain* const* domains, size_t count, uint64_t bytes,
                         bool all_or_nothing) {
  if (Domain::is_in_backend()) return false;
  uint64_t unused = 0;
  for (size_t i = 0; i < count; ++i) unused += domains[i]->unused_bytes();
  const bool has_others = account_.begin_yielding();
  uint64_t given = 0;
  if (unused != 0 && (unused >= bytes || !all_or_nothing)) {
    giving_back_.fetch_add(1);
    for (size_t i = 0; i < count && given < bytes; ++i) {
      given += domains[i]->give_back(static_cast<size_t>(bytes - given));
    }
    giving_back_.fetch_sub(1);
    os::wake_all(giving_back_);
    note_registrations();
  }
  if (given == 0 && has_others) {
    os::wait_a_second(giving_back_, [](uint32_t threads) { return threads == 0; });
  }
  if (given != 0 || has_others) return true;
  account_.end_yielding();
  return false;
}

struct Registry::Part {
  Domain* domain = nullptr;
  bool all_due = false;
  bool is_long = false;
  Domain::Turn turn;

  void work() { turn = domain->take_turn(all_due); }
};

// Runs on the registrar's thread.
uint64_t Registry::work() {
  const bool all_due = retries_.begin_round();
  Part parts[kMaxDomains];
  size_t count = 0;
  for (Domain& domain : domains_) {
    if (domain.is_open()) parts[count++] = {&domain, all_due, false, {}};
  }
  work_side_by_side(parts, count);
  uint64_t next = Retries::kNever;
  bool done = true;
  for (size_t i = 0; i < count; ++i) {
    next = std::min(next, parts[i].turn.next);
    done = parts[i].turn.is_done && done;
  }
  note_registrations();
  const uint64_t now = retries_.now_ns();
  uint64_t wait_ns = Registrar::kNever;
  if (next != Retries::kNever) wait_ns = next > now ? next - now : 0;
  if (done) put_off_ = 0;
  return done ? wait_ns : std::min(wait_ns, put_off());
}

// Devices that have much to register do so at the same time: all but one of their domains get a
// thread for this round.
void Registry::work_side_by_side(Part* parts, size_t count) {
  RoundThreads threads;
  Part* own = nullptr;
  for (size_t i = 0; i < count; ++i) {
    Part& part = parts[i];
    part.is_long = part.domain->has_to_come(kWorthAThread);
    if (!part.is_long) continue;
    const auto run = [](void* given) -> void* {
      static_cast<Part*>(given)->work();
      return nullptr;
    };
    if (own == nullptr) {
      own = &part;
    } else if (!threads.start(run, &part)) {
      part.is_long = false;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (!parts[i].is_long) parts[i].work();
  }
  if (own != nullptr) own->work();
}

// Returns the nanoseconds to wait. They grow each time, and in the end the wait lasts until there
// is other work: forking a large heap takes seconds.
uint64_t Registry::put_off() {
  constexpr uint64_t kFirstNs = 2'000'000;
  constexpr unsigned kSteps = 9;  // up to one second
  constexpr unsigned kMost = 18;
  if (put_off_ >= kMost) return Registrar::kNever;
  return kFirstNs << std::min(put_off_++, kSteps);
}

void Registry::on_discard(const void* address, size_t size) noexcept {
  os::KeepErrno keep_errno;
  const auto base = reinterpret_cast<uintptr_t>(address);
  changes.tell(base, base + size);
}

void Registry::on_change(uintptr_t base, uintptr_t end) noexcept {
  os::KeepErrno keep_errno;
  for (const std::atomic<Foreign*>& place : foreign_) {
    if (Foreign* const foreign = place.load(std::memory_order_acquire)) {
      foreign->cache.on_change(base, end);
    }
  }
}

bool Registry::is_cached(uintptr_t base, uintptr_t end) noexcept {
  for (const std::atomic<Foreign*>& place : foreign_) {
    Foreign* const foreign = place.load(std::memory_order_acquire);
    if (foreign != nullptr && foreign->cache.is_cached(base, end)) return true;
  }
  return false;
}

// Called by the forking thread before it takes the heap's locks; domains may open and close
// meanwhile.
void Registry::release_for_fork() noexcept {
  for (Domain& domain : domains_) {
    if (domain.is_open()) domain.release_for_fork();
  }
  note_registrations();
}

// Another thread may have held the lock at the fork.
void Registry::on_fork_child() noexcept {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  changes.note_fork_child();
  note_fork_child_of_monitors();
  for (Domain& domain : domains_) domain.note_fork_child();
  for (const std::atomic<Foreign*>& place : foreign_) {
    if (Foreign* const foreign = place.load(std::memory_order_relaxed)) {
      foreign->cache.note_fork_child();
    }
  }
  account_.clear();
  retries_.note_fork_child();
  giving_back_ = 0;
  put_off_ = 0;
  counters_.registered_bytes = 0;
  registrar_.note_fork_child();
}

void Registry::add_to(RegistrationCounters* sum) const noexcept {
  sum->domains += count_open();
  sum->registrations += counters_.registrations.load(std::memory_order_relaxed);
  sum->registered_bytes += counters_.registered_bytes.load(std::memory_order_relaxed);
  sum->registered_pinned_bytes += account_.pinned();
  sum->registration_ns += counters_.registration_ns.load(std::memory_order_relaxed);
  sum->lookups += counters_.lookups.sum();
  sum->lookup_misses += counters_.misses.load(std::memory_order_relaxed);
  sum->foreign_hits += ForeignHitCounter::sum();
  for (const std::atomic<Foreign*>& place : foreign_) {
    const Foreign* const foreign = place.load(std::memory_order_acquire);
    if (foreign == nullptr) continue;
    const ForeignCache& cache = foreign->cache;
    const CacheCounters& counters = cache.counters();
    sum->foreign_misses += counters.misses;
    sum->foreign_evictions += counters.evictions;
    sum->foreign_invalidations += counters.invalidations;
    sum->foreign_regions += cache.count();
    sum->foreign_bytes += cache.bytes();
    sum->registrations += counters.registrations;
    sum->registered_bytes += cache.bytes();
  }
}

bool Registry::validate() const {
  for (const Domain& domain : domains_) {
    if (!domain.validate(source_->regions())) return false;
  }
  for (const std::atomic<Foreign*>& place : foreign_) {
    Foreign* const foreign = place.load();
    if (foreign != nullptr && !foreign->cache.validate()) return false;
  }
  return true;
}

}  // namespace rdmalloc
