// Fake system calls: the functions of
// allocator/os/{clock,cpu_clock,environment,huge_page_size,limits,memory,topology}.h, linked in
// their place. They work (ranges are real mappings, so memory can be written), count calls, fail
// when told to, and remember what was done to every range.
//
// Calls that a correct allocator never makes (populating memory that is not open, opening what was
// moved away, closing what somebody holds) are recorded in violations(). Thread-safe, like the
// kernel.
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
  kDropPageTables,
  kCount
};
inline constexpr size_t kCalls = static_cast<size_t>(Call::kCount);
const char* name(Call call);

// What the machine has and allows. The defaults describe a large machine without limits.
struct Machine {
  os::LockLimit lock{os::kNoLimit, os::kNoLimit, false};
  uint64_t locked_by_others = 0;
  uint64_t address_space_left = os::kNoLimit;
  uint64_t total = uint64_t{1} << 40;
  uint64_t cgroup = os::kNoLimit;
  uint64_t swap = 0;
  uint64_t resident = 0;                      // the process's RSS, whatever is populated
  os::Cgroup group;                           // shared with other processes
  uint64_t available = uint64_t{1} << 40;     // for populating
  uint64_t to_touch = uint64_t{1} << 40;      // before the kernel kills the process
  uint64_t largest_reservation = UINT64_MAX;  // bytes; more is refused
  uint64_t huge_pages = 0;                    // in the hugetlb pool
  size_t hugetlb_page = size_t{2} << 20;      // their size, ...
  size_t huge_page = size_t{2} << 20;         // and of transparent ones
  bool moves_locks = true;                    // locked pages can be moved
  bool makes_huge = true;                     // transparent huge pages come when asked for, ...
  uint64_t huge_takes_us = 0;                 // ... each taking this many microseconds
  uint64_t base_takes_us = 0;                 // to populate a MiB of base pages
  uint64_t move_takes_ns = 0;                 // of the CPU clocks, which stand still otherwise
  int nodes = 1;
  bool has_policy = false;       // the program has set a memory policy
  size_t most_mappings = 65530;  // vm.max_map_count
  bool limits_mappings = false;  // and refuses a move that would exceed it
  bool refusals_take = false;    // a refused move has lost its target's pages
  bool gives_rights = true;      // what the program made PROT_NONE can be opened; else it is lost
  size_t looks = 0;              // at locked and available memory; each one reads kernel files
};

// What was done to a range that open() made usable; in address order. A range is split when a call
// affects only part of it, and relocated by move().
struct Range {
  uintptr_t base = 0;
  size_t bytes = 0;
  uintptr_t origin = 0;  // where its first byte was opened
  os::PageKind kind = os::PageKind::kBase;
  int node = -1;     // from prefer_node, or -1
  int touched = -1;  // from touch(), or -1
  bool populated = false;
  bool locked = false;
  bool sealed = false;
  size_t discarded = 0;  // bytes, summed over calls
  uintptr_t end() const { return base + bytes; }
};

// Forgets everything and unmaps all that was handed out; no object that uses it may still exist.
void reset();

// May be changed only while no other thread runs.
Machine& machine();
std::vector<std::string>& environment();  // "NAME=value"

// Sets the node of the calling thread.
void set_node(int node);

// The CPU clocks go on by that much.
void compute(uint64_t ns);
// It is that time until this is called again. Otherwise time passes as outside.
void set_time(uint64_t ns);

// A thread of that node touches the range: pages that do not exist yet appear on that node, or
// where the policy places them.
void touch(const void* address, size_t bytes, int node);

// The program maps something of its own over these pages: they are the allocator's no longer, held
// or not.
void destroy(const void* address, size_t bytes);

// The k-th call from now on fails (1: the next one), with that status if the call returns one.
void fail(Call call, size_t k, Status status = Status::kNoMemory);
// The k-th call and all later ones.
void fail_from(Call call, size_t k, Status status = Status::kNoMemory);
void fail_nothing();

size_t calls(Call call);
size_t opened();          // bytes open now
size_t locked();          // bytes locked now
size_t metadata_bytes();  // bytes handed out by map_metadata
size_t mappings();        // the kernel would have; equal adjacent ranges count as one
size_t split_moves();     // moves refused because they spanned several mappings
std::vector<Range> ranges();
// The ranges that overlap [address, address + bytes).
std::vector<Range> ranges_in(const void* address, size_t bytes);
// Within that range: bytes open now; bytes moved away and left.
size_t opened_in(const void* address, size_t bytes);
size_t left_in(const void* address, size_t bytes);
// The page table that maps what begins there was freed, ever.
bool has_dropped_table(const void* address);
// Bytes moved away and not left yet.
size_t vacated();
// The range that holds the address; it has zero bytes if the address is not open.
Range range_of(const void* address);

// Tells the fake that this memory is in use: closing it is a violation.
void hold(const void* address, size_t bytes);
void drop(const void* address);

// Empty if every call was in order; otherwise one sentence per violation.
std::vector<std::string> violations();

}  // namespace rdmalloc::fake
