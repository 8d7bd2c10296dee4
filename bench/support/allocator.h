// The allocators that are compared: what to preload, and whether this machine has it.
#pragma once

#include <string>
#include <vector>

namespace rdmalloc::bench {

struct Allocator {
  std::string name;
  std::string library;      // for LD_PRELOAD, found by the dynamic linker; empty: libc's own malloc
  std::string malloc_from;  // part of the name of the file whose malloc a process then has
  std::vector<std::string> settings = {};  // its options, as environment entries NAME=value
};

const Allocator& ours();
const Allocator& glibc();
// glibc told to keep what it has: what a program's author does who finds it slow with large blocks.
const Allocator& glibc_tuned();
const Allocator& jemalloc();

// jemalloc first: it is what we are held against. Those that this machine lacks are left out, and a
// line on standard error says why.
const std::vector<Allocator>& peers();

// The same and the tuned glibc, for what is about large blocks and about memory.
std::vector<Allocator> peers_and_tuned();

// True when a process started with it really uses it; else false, and the reason is printed.
bool is_usable(const Allocator& allocator);

// BENCH_SHORT: prove that everything runs, measure nothing.
bool is_short_form();

// What `full` repetitions are in this form.
int rounds(int full);

}  // namespace rdmalloc::bench
