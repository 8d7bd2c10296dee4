#include "regcache/domain/domain.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <type_traits>

#include "allocator/last_error.h"
#include "include/rdmalloc/inline.h"

extern "C" const char rdm_lookup_layout_2 = 1;

namespace rdmalloc {

// The layout that include/rdmalloc/inline.h compiles into programs. If one of these checks fails,
// give the layout a new number.
struct InlineLayout {
  using Head = rdm_lookup_head_;
  static_assert(std::is_standard_layout_v<Domain>);
  static_assert(offsetof(Domain, parts_) == 0 && offsetof(DomainParts, keys) == 0);
  static_assert(offsetof(KeyTable, window_base_) == offsetof(Head, window));
  static_assert(offsetof(KeyTable, window_size_) == offsetof(Head, window_size));
  static_assert(offsetof(KeyTable, by_stretch_) == offsetof(Head, entry_by_stretch));
  static_assert(offsetof(KeyTable, entries_) == offsetof(Head, entries));
  using Entry = rdm_lookup_entry_;
  static_assert(sizeof(KeyEntry) == sizeof(Entry));
  static_assert(offsetof(KeyEntry, length) == offsetof(Entry, length));
  static_assert(offsetof(KeyEntry, base) == offsetof(Entry, base));
  static_assert(offsetof(KeyEntry, keys) == offsetof(Entry, lkey));
  static_assert(offsetof(KeyEntry, handle) == offsetof(Entry, handle));
  static_assert(RegionTable::kStretchShift == 18);
};

namespace {

[[gnu::format(printf, 1, 2)]] int refuse_busy(const char* format, ...) {
  char sentence[Complaints::kLongest];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return fail(RDM_BUSY, sentence);
}

int refuse_while_pools(uint32_t pools) {
  return refuse_busy(
      "pools that are open (%u) hand out this domain's keys: rdm_pool_close each, then close the "
      "domain",
      pools);
}

int close_foreign(ForeignCache* foreign) {
  uint32_t users = 0;
  const int status = foreign->close(&users);
  if (status != RDM_BUSY) return status;
  return refuse_busy(
      "%u registrations of foreign memory are in use: rdm_put each as often as rdm_get returned "
      "it, then close the domain",
      users);
}

}  // namespace

void Domain::bind(ForeignCache* foreign, const RegionSource* source, PinAccount* account,
                  Retries* retries, DomainCounters* counters) {
  parts_.source = source;
  parts_.retries = retries;
  parts_.counters = counters;
  parts_.foreign = foreign;
  parts_.device.bind(account, retries);
  parts_.mrs.bind(&parts_.device, &parts_.complaints, source, counters, foreign);
  parts_.refusals.bind(&parts_.device, &parts_.mrs, retries, foreign, &parts_.rules);
  registration_.bind(&parts_, &deregistration_);
  deregistration_.bind(&parts_);
  key_holds_.bind(this);
}

int Domain::open(const rdm_backend& backend, void* context, unsigned access, unsigned flags) {
  const RegionTable& regions = parts_.source->regions();
  Complaints& complaints = parts_.complaints;
  complaints.begin_opening(parts_.source, backend.name);
  const char* why = nullptr;
  if (const int status = parts_.device.open(backend, context, &why); status != RDM_OK) {
    complaints.say(why);
    return status;
  }
  if ((flags & RDM_DOMAIN_CALLERS_ONLY) != 0 && parts_.device.may_run_in_malloc()) {
    complaints.say("RDM_DOMAIN_CALLERS_ONLY is not for a backend that registers inside malloc");
    return RDM_INVALID;
  }
  if (!parts_.keys.make(regions, parts_.source->window()) || !key_holds_.open(regions)) {
    complaints.say("no memory for bookkeeping");
    return RDM_SYSTEM;
  }
  parts_.rules.open(flags);
  parts_.mrs.open({access == 0 ? unsigned{RDM_LOCAL_WRITE} : access,
                   (flags & RDM_DOMAIN_SHARE_HEAP) != 0, (flags & RDM_DOMAIN_NAMED_ONLY) != 0});
  parts_.entrance.open();
  return RDM_OK;
}

int Domain::close(bool tell_backend) {
  const bool forked = parts_.entrance.is_of_parent();
  int result = RDM_OK;
  if (!forked) {
    const uint32_t pools = pools_.load(std::memory_order_acquire);
    if (pools != 0) return refuse_while_pools(pools);
    result = close_foreign(parts_.foreign);
    if (result == RDM_BUSY) return result;
    parts_.entrance.shut();
    if (!deregistration_.deregister_all()) result = RDM_SYSTEM;
  }
  if (tell_backend) parts_.device.tell_closed(forked);
  parts_.device.forget_all();
  parts_.entrance.free();
  return result;
}

bool Domain::hold() {
  if (!is_open() || parts_.rules.is_callers_only() || parts_.rules.releases_at_fork()) return false;
  pools_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Domain::note_fork_child() {
  if (!is_in_use()) return;
  parts_.entrance.note_fork_child();
  parts_.complaints.note_fork_child();
  pools_ = 0;
  parts_.keys.clear(parts_.source->regions());
  parts_.early.clear();
  parts_.early_claims.clear();
}

bool Domain::validate() const {
  if (!is_open()) return true;
  size_t count = 0;
  return parts_.keys.validate(parts_.source->regions(), &count) &&
         count + parts_.early.count() + parts_.foreign->count() == parts_.device.count() &&
         count <= parts_.device.limits().max_count;
}

}  // namespace rdmalloc
