// All domains of the process: the one observer of its regions, and the one sink for changes of
// foreign memory.
//
// on_ready() runs inside malloc: it calls the backends that permit that and wakes the registrar for
// the others. on_retire() does the same for a region that is gone. open() and close() take a lock
// of their own, under which backends run (see README.md, lock order); they are never called inside
// malloc. on_change() runs in whichever call of the program changes memory, also inside malloc.
// Constant-initialised.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/domain/domain.h"
#include "regcache/domain/domain_foreign.h"
#include "regcache/domain/region_source.h"
#include "regcache/domain/registrar.h"
#include "regcache/domain/retries.h"
#include "regcache/foreign/monitor/changes.h"

namespace rdmalloc {

class Registry final : public RegionObserver, public ChangeSink {
 public:
  static constexpr size_t kMaxDomains = 64;

  explicit constexpr Registry(RegionSource& source) : source_(&source) {}
  ~Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // rdm_domain_open and rdm_domain_close; statuses of rdmalloc.h.
  int open(const rdm_backend* backend, void* context, const rdm_domain_options* options,
           Domain** out);
  int close(Domain* domain);

  // Called after the program's own registration was refused for lack of room: gives back so many
  // bytes of these domains' registrations that nobody uses (Domain::hold). False: there is nothing
  // to give back, or with `all_or_nothing` not so much; or the registration is one of ours, made
  // inside a driver. True: try it once more and then call end_room(). Until then domains register
  // no region. Takes no lock; waits only for another thread that is giving back, and for the
  // registrar, at most a second each.
  bool make_room(Domain* const* domains, size_t count, uint64_t bytes, bool all_or_nothing);
  void end_room() { account_.end_yielding(); }

  void on_acquire(const Region& region) noexcept REQUIRES(growth_lock) override { (void)region; }
  bool wants_pages(const Region& region) const noexcept override;
  void on_ready(const Region& region) noexcept EXCLUDES(growth_lock, depot_lock) override;
  void on_retire(const Region& region) noexcept REQUIRES(growth_lock) override;
  bool has_let_go(const Region& region) const noexcept override;
  void on_discard(const void* address, size_t size) noexcept
      EXCLUDES(growth_lock, depot_lock) override;
  void on_fork_child() noexcept REQUIRES(growth_lock) override;
  void add_to(RegistrationCounters* sum) const noexcept override;

  void on_change(uintptr_t base, uintptr_t end) noexcept override;
  bool is_cached(uintptr_t base, uintptr_t end) noexcept override;

  // Before a fork: the domains of RDM_DOMAIN_RELEASE_AT_FORK deregister.
  void release_for_fork() noexcept;

  bool validate() const;

  // A round of the registrar: registers what is missing, if it is due. Returns the nanoseconds
  // until the next round, or Registrar::kNever.
  uint64_t work();
  // Ends the registrar; for tests.
  void stop() { registrar_.stop(); }

 private:
  // A domain's cache of foreign memory, made when the domain is first used, and kept.
  struct Foreign {
    ForeignCache cache;
    DomainDevice device;
  };

  Domain* find_free();
  int open_locked(const rdm_backend& backend, void* context, const rdm_domain_options& options,
                  Domain** out);
  Foreign* foreign_of(Domain* domain);
  void open_foreign(Foreign* foreign, const rdm_domain_options& options);
  bool give_up(int charges, size_t bytes, PinAccount::Doing doing);
  bool is_domain(const Domain* domain) const;
  void warn_of_forks(const Domain& domain, unsigned flags);
  int replay(Domain* domain, bool partial);
  int replay_once(Domain* domain, bool partial);
  // A domain's part of a round, done by one thread.
  struct Part;
  void work_side_by_side(Part* parts, size_t count);
  uint64_t put_off();
  bool start_registrar();
  bool wake_registrar(bool may_start);
  bool needs_registrar() const;
  uint64_t count_open() const noexcept;
  void note_registrations() noexcept;
  bool retire_everywhere(const Region& region) noexcept;
  void retire_leftovers() noexcept;

  RegionSource* const source_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> has_leftovers_{false};  // of retired regions, in backends that run in malloc
  std::atomic<uint32_t> meeting_{0};        // of replay() and on_ready()
  size_t next_ = 0;  // where to look for a free domain: one that was just closed is reused last
  PinAccount account_;
  Retries retries_{source_, &account_,
                   [](void* self, bool may_start) {
                     return static_cast<Registry*>(self)->wake_registrar(may_start);
                   },
                   this};
  std::atomic<uint32_t> giving_back_{0};  // threads
  unsigned put_off_ = 0;  // successive rounds in which a backend asked to be called later
  DomainCounters counters_;
  std::atomic<Foreign*> foreign_[kMaxDomains] = {};
  Registrar registrar_;
  Domain domains_[kMaxDomains];  // last, because few processes touch it
};

}  // namespace rdmalloc
