// What a replay writes into its blocks, and expects to find there later.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::trace {

// Writes to each page of the block from this byte on, as programs do with memory they allocate.
void touch_pages(void* block, uint64_t from, uint64_t size);

// The pattern of a seed, from this byte of the block on. It does not depend on the block's address,
// so that a block that realloc moved can be checked.
void write_pattern(void* block, uint64_t from, uint64_t size, uint64_t seed);
bool has_pattern(const void* block, uint64_t size, uint64_t seed);

bool is_zero(const void* block, uint64_t size);

}  // namespace rdmalloc::trace
