// What becomes of regions that a domain could not register: why, and when they are tried again; see
// retries.h. What it knows of a region is in its key entry.
//
// Takes no lock. Any thread that has entered the domain. Whoever refuses a region has claimed its
// entry (kBusy), and sets its state here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regcache/domain/device.h"
#include "regcache/domain/key_entry.h"
#include "regcache/domain/region_mrs.h"
#include "regcache/domain/registration_rules.h"
#include "regcache/domain/retries.h"

namespace rdmalloc {

class Refusals {
 public:
  constexpr Refusals() = default;
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // Once, before the domain is first opened. The cache can make room for regions.
  void bind(Device* device, const RegionMrs* mrs, Retries* retries, ForeignCache* foreign,
            const RegistrationRules* rules);

  // These return the status for the caller. Leaves the region to the first thread that may register
  // it:
  static int put_off(KeyEntry& entry, int status);
  int refuse(const Region& region, KeyEntry& entry, int status, RegionCaller caller);
  // There is too little memory, for now.
  int refuse_for_memory(const Region& region, KeyEntry& entry);

  // After a registration failed with that status: whether room was made for another try. The heap
  // takes precedence over registrations that are only kept for reuse.
  bool makes_room(const Region& region, int status, size_t length);

  // Of a region that was refused. For a lookup that may not, the registrar finds out whether the
  // refusal still holds.
  bool may_try_again(const Region& region, const KeyEntry& entry, RegionCaller caller);
  // Of a region that is registered in part: whether the device may have MRs for the rest now; and
  // what came of another try.
  bool may_complete(const Region& region, const KeyEntry& entry) const;
  void note_rest(const Region& region, KeyEntry& entry, int status) const;
  // When the registrar should try again: a time as of Retries::now_ns(), or kNever, also for a
  // region that was neither refused nor registered in part.
  uint64_t next_try(const Region& region, const KeyEntry& entry) const;
  // Makes another try due now, if the region was refused.
  static void make_due(KeyEntry& entry);

 private:
  int refuse_as(Cause cause, const Region& region, KeyEntry& entry, int status);
  void wait_for_room(const Region& region) const;
  bool has_room(const Region& region) const;
  bool may_make_room(const Region& region, const KeyEntry& entry) const;
  bool is_due(const Region& region, const KeyEntry& entry) const;
  void say_no(const Region& region, const KeyEntry& entry);
  size_t missing_count(const Region& region) const;
  size_t shortfall(const Region& region) const {
    return device_->shortfall(mrs_->charges_for(region),
                              mrs_->length_of(region) + device_->left_free());
  }
  uint64_t in_use(const Region& region) const { return device_->in_use(mrs_->charges_for(region)); }

  Device* device_ = nullptr;
  const RegionMrs* mrs_ = nullptr;
  Retries* retries_ = nullptr;
  ForeignCache* foreign_ = nullptr;
  const RegistrationRules* rules_ = nullptr;
};

}  // namespace rdmalloc
