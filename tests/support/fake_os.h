// The system calls as tests want them: the same functions as allocator/os/{memory,limits,topology,
// environment}.h, linked in their place. They work (ranges are real mappings, so memory can be
// written), count calls, fail when told to, and remember what was done to every range.
//
// A call that a correct allocator never makes (populate what is not open, open what was moved away,
// close what somebody holds) is written down in violations(). Thread-safe, like the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "allocator/os/limits.h"
#include "allocator/os/memory.h"

namespace rdmalloc::fake {

enum class Call : uint8_t {
  kReserve,
  kOpen,
  kClose,
  kPopulate,
  kLock,
  kSeal,
  kPreferNode,
  kDiscard,
  kMapMetadata,
  kMove,
  kGiveUp,
  kCount
};
inline constexpr size_t kCalls = static_cast<size_t>(Call::kCount);
const char* name(Call call);

// What the machine has and allows. The defaults are a large machine without limits.
struct Machine {
  os::LockLimit lock{os::kNoLimit, os::kNoLimit, false};
  uint64_t locked_by_others = 0;
  uint64_t address_space_left = os::kNoLimit;
  uint64_t total = uint64_t{1} << 40;
  uint64_t cgroup = os::kNoLimit;
  uint64_t swap = 0;
  uint64_t resident = 0;                      // of the process, whatever is populated
  os::Cgroup group;                           // that the process shares with others
  uint64_t available = uint64_t{1} << 40;     // to be populated
  uint64_t to_touch = uint64_t{1} << 40;      // before the kernel kills
  uint64_t largest_reservation = UINT64_MAX;  // bytes; more is refused
  uint64_t huge_pages = 0;                    // in the hugetlb pool
  bool moves_locks = true;                    // pages are moved while they are locked
  bool makes_huge = true;                     // transparent huge pages come when asked for, ...
  uint64_t huge_takes_us = 0;                 // ... each in so many microseconds
  int nodes = 1;
  bool has_policy = false;       // the program says where its memory is to lie
  size_t most_mappings = 65530;  // vm.max_map_count
  bool limits_mappings = false;  // and a move that would need more is refused
  bool refusals_take = false;    // a refused move has taken its target's pages away
  bool gives_rights = true;      // what a program has shut can be opened; else it is gone
  size_t looks = 0;  // at locked and available memory, each of which reads files of the kernel
};

// What was done to a range that open() made usable; in address order. A range is split where only a
// part of it was meant, and moved by move().
struct Range {
  uintptr_t base = 0;
  size_t bytes = 0;
  uintptr_t origin = 0;  // where its first byte was opened
  os::PageKind kind = os::PageKind::kBase;
  int node = -1;     // prefer_node's, -1 without
  int touched = -1;  // touch()'s, -1 without
  bool populated = false;
  bool locked = false;
  bool sealed = false;
  size_t discarded = 0;  // bytes, summed over calls
  uintptr_t end() const { return base + bytes; }
};

// Forgets everything and unmaps all that was handed out: no object that uses it may be alive.
void reset();

// To be changed while no other thread runs.
Machine& machine();
std::vector<std::string>& environment();  // "NAME=value"

// The node of the calling thread.
void set_node(int node);

// A thread of that node touches the range: what has not come yet lies there, or where it was
// placed.
void touch(const void* address, size_t bytes, int node);

// A call of the program's own maps something of its own over these pages: what of them was the
// allocator's is so no more, held or not.
void destroy(const void* address, size_t bytes);

// The k-th call from now on fails (1: the next one), with that status where the call has one.
void fail(Call call, size_t k, Status status = Status::kNoMemory);
// The k-th one and all later ones.
void fail_from(Call call, size_t k, Status status = Status::kNoMemory);
void fail_nothing();

size_t calls(Call call);
size_t opened();          // bytes open now
size_t locked();          // bytes locked now
size_t metadata_bytes();  // bytes handed out by map_metadata
size_t mappings();        // the kernel would have of what is open: like ones that touch are one
size_t split_moves();     // moves that were refused because they were of more than one mapping
std::vector<Range> ranges();
// Those that overlap [address, address + bytes).
std::vector<Range> ranges_in(const void* address, size_t bytes);
// Of that range: open now; moved away, and left.
size_t opened_in(const void* address, size_t bytes);
size_t left_in(const void* address, size_t bytes);
// Moved away, and not left yet.
size_t vacated();
// The range that holds the address; zero bytes when it is not open.
Range range_of(const void* address);

// Tells the fake that somebody uses this memory: closing it is a violation.
void hold(const void* address, size_t bytes);
void drop(const void* address);

// Empty when every call was in order; else one sentence each.
std::vector<std::string> violations();

}  // namespace rdmalloc::fake
