// What one domain consists of, for the classes that work on it: each part guards its own state and
// says who may call it. Constant-initialised; nothing here is ever destroyed.
#pragma once

#include "regcache/domain/complaints.h"
#include "regcache/domain/device.h"
#include "regcache/domain/domain_counters.h"
#include "regcache/domain/early_claim.h"
#include "regcache/domain/early_parts.h"
#include "regcache/domain/entrance.h"
#include "regcache/domain/key_table.h"
#include "regcache/domain/refusals.h"
#include "regcache/domain/region_mrs.h"
#include "regcache/domain/region_source.h"
#include "regcache/domain/registration_rules.h"
#include "regcache/domain/retries.h"
#include "regcache/foreign/foreign_cache.h"

namespace rdmalloc {

struct DomainParts {
  KeyTable keys;  // first: see InlineLayout

  // Set before the domain is first opened, and then kept: others read them without a lock.
  const RegionSource* source = nullptr;
  Retries* retries = nullptr;
  DomainCounters* counters = nullptr;
  ForeignCache* foreign = nullptr;

  Entrance entrance;  // to what may call the backend
  Device device;
  Complaints complaints;
  RegionMrs mrs;
  Refusals refusals;
  EarlyParts early;
  EarlyClaims early_claims;
  RegistrationRules rules;
};

}  // namespace rdmalloc
