// Many buffers of a pool at once, and checks on them.
#pragma once

#include <set>
#include <vector>

#include "tests/support/pool_fixture.h"

namespace rdmalloc::fake {

inline void put_all(Pool* pool, const std::vector<rdm_buffer>& buffers) {
  for (const rdm_buffer& buffer : buffers) REQUIRE(Pool::put(pool, buffer.address) == RDM_OK);
}

// Takes every buffer that the pool has or may make.
inline std::vector<rdm_buffer> get_all(PoolFixture& f, Pool* pool) {
  std::vector<rdm_buffer> all;
  rdm_buffer buffer{};
  while (Pool::get(pool, &buffer) == RDM_OK) {
    f.check(buffer);
    all.push_back(buffer);
  }
  return all;
}

inline void require_apart(const std::vector<rdm_buffer>& buffers) {
  std::set<char*> sorted;
  for (const rdm_buffer& buffer : buffers) sorted.insert(static_cast<char*>(buffer.address));
  REQUIRE(sorted.size() == buffers.size());
  const char* end = nullptr;
  for (char* address : sorted) {
    REQUIRE(address >= end);
    end = address + buffers.front().length;
  }
}

// The pools hold no memory, and the heap is sound.
inline bool pools_are_clean(PoolFixture& f) {
  return f.memory.blocks() == 0 && f.heap.unsound().empty();
}

}  // namespace rdmalloc::fake
