// The allocators under comparison: what to preload, and whether this machine has it.
#pragma once

#include <string>
#include <vector>

namespace rdmalloc::bench {

struct Allocator {
  std::string name;
  std::string library;      // for LD_PRELOAD, found by the dynamic linker; empty: libc's own malloc
  std::string malloc_from;  // part of the name of the file that then provides malloc
  std::vector<std::string> settings = {};  // its options, as environment entries NAME=value
};

const Allocator& ours();
const Allocator& glibc();
// glibc told to keep its memory, as authors do who find it slow with large blocks.
const Allocator& glibc_tuned();
const Allocator& jemalloc();

// jemalloc first, because it sets the bar. Those that this machine lacks are left out, and a line
// on standard error says why.
const std::vector<Allocator>& peers();

// The peers and the tuned glibc, for benchmarks of large blocks and of memory use.
std::vector<Allocator> peers_and_tuned();

// True if a process started with it really uses it; otherwise prints the reason and returns false.
bool is_usable(const Allocator& allocator);

// BENCH_SHORT: check that everything runs; measure nothing.
bool is_short_form();

// The short form's equivalent of `full` repetitions.
int rounds(int full);

}  // namespace rdmalloc::bench
