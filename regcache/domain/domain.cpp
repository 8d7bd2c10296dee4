#include "regcache/domain/domain.h"

#include <stddef.h>
#include <string.h>

#include <type_traits>

#include "allocator/os/memory.h"
#include "include/rdmalloc/inline.h"

extern "C" const char rdm_lookup_layout_1 = 1;

namespace rdmalloc {

// The layout that include/rdmalloc/inline.h compiles into programs. If one of these checks fails,
// give the layout a new number.
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

int Domain::open(const rdm_backend& backend, void* context, unsigned access, unsigned flags,
                 const RegionSource& source, PinAccount* account, Retries* retries,
                 DomainCounters* counters) {
  complaints_.begin_opening(&source, backend.name);
  is_replayed_ = false;
  const char* why = nullptr;
  if (const int status = device_.open(backend, context, account, retries, &why); status != RDM_OK) {
    complaints_.say(why);
    return status;
  }
  if ((flags & RDM_DOMAIN_CALLERS_ONLY) != 0 && may_run_in_malloc()) {
    complaints_.say("RDM_DOMAIN_CALLERS_ONLY is not for a backend that registers inside malloc");
    return RDM_INVALID;
  }
  if (entries_ == nullptr) {
    const size_t bytes = (source.regions().capacity() + 1) * sizeof(KeyEntry);
    entries_ = static_cast<KeyEntry*>(os::map_metadata(bytes));
    if (entries_ == nullptr) {
      complaints_.say("no memory for bookkeeping");
      return RDM_SYSTEM;
    }
  }
  if (!uses_.make_room(source.regions().capacity())) {
    complaints_.say("no memory for bookkeeping");
    return RDM_SYSTEM;
  }
  uses_.forget(source.regions().size());
  counts_uses_ = false;
  callers_only_ = (flags & RDM_DOMAIN_CALLERS_ONLY) != 0;
  mrs_.open(&device_, &complaints_, &source, counters,
            {access == 0 ? unsigned{RDM_LOCAL_WRITE} : access, (flags & RDM_DOMAIN_SHARE_HEAP) != 0,
             (flags & RDM_DOMAIN_NAMED_ONLY) != 0});
  refusals_.open(&device_, &mrs_, retries, callers_only_);
  does_not_wait_ = (flags & RDM_DOMAIN_DO_NOT_WAIT) != 0;
  releases_at_fork_ = (flags & RDM_DOMAIN_RELEASE_AT_FORK) != 0;
  was_released_ = false;
  when_asked_ = (flags & (RDM_DOMAIN_WHEN_ASKED | RDM_DOMAIN_CALLERS_ONLY)) != 0;
  if (source_ == nullptr) {
    // Every use of this domain sets the same values; late lookups still read them.
    source_ = &source;
    retries_ = retries;
    counters_ = counters;
    by_granule_ = source.regions().whole_by_granule();
    window_base_ = source.window().base();
    window_size_ = source.window().size();
  }
  entrance_.open();
  return RDM_OK;
}

void Domain::set_foreign(ForeignCache* foreign) {
  foreign_ = foreign;
  mrs_.set_foreign(foreign);
  refusals_.set_foreign(foreign);
}

int Domain::close(bool tell_backend) {
  const bool forked = entrance_.is_of_parent();
  int result = RDM_OK;
  if (!forked) {
    const uint32_t pools = pools_.load(std::memory_order_acquire);
    if (pools != 0) return refuse_while_pools(pools);
    result = close_foreign();
    if (result == RDM_BUSY) return result;
    entrance_.shut();
    for (size_t i = source_->regions().size(); i-- > 0;) {
      if (deregister(source_->regions()[i]) != RDM_OK) result = RDM_SYSTEM;
    }
  }
  if (tell_backend) device_.tell_closed(forked);
  device_.forget_all();
  entrance_.free();
  return result;
}

int Domain::refuse_while_pools(uint32_t pools) const {
  char sentence[Complaints::kLongest];
  snprintf(sentence, sizeof sentence,
           "pools that are open (%u) hand out this domain's keys: rdm_pool_close each, then close "
           "the domain",
           pools);
  return fail(RDM_BUSY, sentence);
}

bool Domain::hold() {
  if (!is_open() || callers_only_ || releases_at_fork_) return false;
  pools_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Domain::note_fork_child() {
  if (!is_in_use()) return;
  entrance_.note_fork_child();
  complaints_.note_fork_child();
  pools_ = 0;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    KeyEntry& entry = entry_of(source_->regions()[i]);
    entry.length = 0;
    entry.pieces = 0;
    entry.forget_refusals();
    entry.state = kUnregistered;
  }
  early_.clear();
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
  return entries_[0].length == 0 && count + early_.count() + foreign_->count() == device_.count() &&
         count <= limits().max_count;
}

}  // namespace rdmalloc
