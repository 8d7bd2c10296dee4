#include "regcache/domain/registry.h"

#include <stddef.h>
#include <string.h>

#include "allocator/failure.h"
#include "allocator/last_error.h"
#include "allocator/message.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/thread.h"
#include "regcache/caller_struct.h"
#include "regcache/domain/in_backend.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {
namespace {

constexpr unsigned kKnownFlags = RDM_DOMAIN_SHARE_HEAP | RDM_DOMAIN_PARTIAL |
                                 RDM_DOMAIN_LEAVE_NOTHING_PINNED | RDM_DOMAIN_DO_NOT_WAIT |
                                 RDM_DOMAIN_WHEN_ASKED | RDM_DOMAIN_CALLERS_ONLY |
                                 RDM_DOMAIN_RELEASE_AT_FORK | RDM_DOMAIN_NAMED_ONLY;
constexpr unsigned kKnownAccess =
    RDM_LOCAL_WRITE | RDM_REMOTE_WRITE | RDM_REMOTE_READ | RDM_REMOTE_ATOMIC;

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

// Warns once per process, whichever domain is affected.
void warn_of_forks(const RegionSource& source, const Domain& domain, unsigned flags) {
  const rdm_backend_limits& limits = domain.parts().device.limits();
  const bool is_pinned =
      limits.charges != RDM_CHARGES_NOTHING || (limits.abilities & RDM_BACKEND_ON_DEMAND) == 0;
  const bool is_concerned = is_pinned && (flags & RDM_DOMAIN_RELEASE_AT_FORK) == 0;
  if (!is_concerned || !source.warns() || source.copies_pinned_at_fork()) return;
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

}  // namespace

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
  if (InBackend::is_here) {
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
    source_->call_before_forks([](void* self) { static_cast<Domains*>(self)->release_for_fork(); },
                               &domains_);
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
  Domain* domain = domains_.find_free();
  if (domain == nullptr) return fail(options, "too many domains are open: close one", RDM_BUSY);
  DomainForeign* const foreign = domains_.prepare(domain, &registrar_, &retries_);
  if (foreign == nullptr) return fail(options, "no memory for bookkeeping", RDM_SYSTEM);
  changes.attach(&domains_);
  (void)retries_.look_at_limit();
  room_.serve_domains();
  int status = domain->open(backend, context, options.access, options.flags);
  if (status != RDM_OK) return fail(options, domain->why(), status);
  foreign->open(options, source_->foreign());
  if (domains_.need_registrar()) (void)registrar_.start();
  status = relay_.replay(domain, (options.flags & RDM_DOMAIN_PARTIAL) != 0);
  if (status != RDM_OK) {
    (void)domain->close(false);
    if (!domains_.need_registrar()) registrar_.stop();
    return fail(options, domain->why(), status);
  }
  domain->parts().complaints.end_opening();
  warn_of_forks(*source_, *domain, options.flags);
  // Wakes the registrar for what is still missing of a partially opened domain.
  retries_.note_work();
  domains_.note_registrations();
  *out = domain;
  return RDM_OK;
}

// While a domain is being opened or closed, the registrar is not started for other domains.
bool Registry::wake_registrar(bool may_start) {
  if (!may_start || registrar_.is_started()) {
    registrar_.poke();
    return true;
  }
  if (pthread_mutex_trylock(&mutex_) != 0) return false;
  const bool is_started = registrar_.start();
  pthread_mutex_unlock(&mutex_);
  return is_started;
}

int Registry::close(Domain* domain) {
  if (InBackend::is_here) {
    return rdmalloc::fail(RDM_BUSY,
                          "this was called from inside a registration: call it afterwards");
  }
  os::NoCancel no_cancel;
  PosixLock hold(&mutex_, LockRank::kOuter);
  if (!domains_.is_in_use(domain)) return rdmalloc::fail(RDM_INVALID, "this is no open domain");
  const int status = domain->close(true);
  if (status == RDM_BUSY) return status;
  if (status != RDM_OK) {
    (void)rdmalloc::fail(status, "the device did not deregister all memory, the domain is closed");
  }
  if (!domains_.need_registrar()) registrar_.stop();
  retries_.note_event();
  domains_.note_registrations();
  return status;
}

void Registry::on_ready(const Region& region) noexcept {
  os::KeepErrno keep_errno;
  relay_.ready(region);
  domains_.note_registrations();
}

void Registry::on_retire(const Region& region) noexcept {
  os::KeepErrno keep_errno;
  relay_.retire(region);
}

void Registry::on_discard(const void* address, size_t size) noexcept {
  os::KeepErrno keep_errno;
  const auto base = reinterpret_cast<uintptr_t>(address);
  changes.tell(base, base + size);
}

// Another thread may have held the lock at the fork.
void Registry::on_fork_child() noexcept {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  changes.note_fork_child();
  note_fork_child_of_monitors();
  domains_.note_fork_child();
  retries_.note_fork_child();
  room_.note_fork_child();
  rounds_.note_fork_child();
  registrar_.note_fork_child();
}

}  // namespace rdmalloc
