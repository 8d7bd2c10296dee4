// All pools, by number. See record_list.h; under the lock of Pools.
#pragma once

#include "regcache/pool/pool.h"
#include "regcache/record_list.h"

namespace rdmalloc {

using PoolList = RecordList<Pool, ThreadStocks::kMaxPools>;

}  // namespace rdmalloc
