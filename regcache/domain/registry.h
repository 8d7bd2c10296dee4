// Opens and closes the domains of the process, and is the one observer of its regions.
//
// on_ready() runs inside malloc: it calls the backends that permit that and wakes the registrar for
// the others. on_retire() does the same for a region that is gone. open() and close() take a lock
// of their own, under which backends run (see README.md, lock order); they are never called inside
// malloc. Constant-initialised.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "regcache/domain/domains.h"
#include "regcache/domain/region_relay.h"
#include "regcache/domain/region_source.h"
#include "regcache/domain/registrar.h"
#include "regcache/domain/registrar_rounds.h"
#include "regcache/domain/retries.h"
#include "regcache/domain/room_maker.h"

namespace rdmalloc {

class Registry final : public RegionObserver {
 public:
  explicit constexpr Registry(RegionSource& source) : source_(&source) {}
  ~Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // rdm_domain_open and rdm_domain_close; statuses of rdmalloc.h.
  int open(const rdm_backend* backend, void* context, const rdm_domain_options* options,
           Domain** out);
  int close(Domain* domain);

  Domains& domains() { return domains_; }
  RoomMaker& room() { return room_; }
  // The registrar's work, and its end; for tests.
  RegistrarRounds& rounds() { return rounds_; }
  void stop() { registrar_.stop(); }

  void on_acquire(const Region& region) noexcept REQUIRES(growth_lock) override { (void)region; }
  bool wants_pages(const Region& region) const noexcept override {
    return relay_.wants_pages(region);
  }
  void on_ready(const Region& region) noexcept EXCLUDES(growth_lock, depot_lock) override;
  void on_retire(const Region& region) noexcept REQUIRES(growth_lock) override;
  bool has_let_go(const Region& region) const noexcept override {
    return relay_.has_let_go(region);
  }
  void on_discard(const void* address, size_t size) noexcept
      EXCLUDES(growth_lock, depot_lock) override;
  void on_fork_child() noexcept REQUIRES(growth_lock) override;
  void add_to(RegistrationCounters* sum) const noexcept override { domains_.add_to(sum); }

 private:
  int open_locked(const rdm_backend& backend, void* context, const rdm_domain_options& options,
                  Domain** out);
  bool wake_registrar(bool may_start);

  RegionSource* const source_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  PinAccount account_;
  Retries retries_{source_, &account_,
                   [](void* self, bool may_start) {
                     return static_cast<Registry*>(self)->wake_registrar(may_start);
                   },
                   this};
  RegistrarRounds rounds_{&domains_, &retries_};
  Registrar registrar_{[](void* rounds) { return static_cast<RegistrarRounds*>(rounds)->work(); },
                       &rounds_};
  RegionRelay relay_{&domains_, source_, &registrar_};
  RoomMaker room_{&domains_, &account_};
  Domains domains_{source_, &account_};  // last, because few processes touch it
};

}  // namespace rdmalloc
