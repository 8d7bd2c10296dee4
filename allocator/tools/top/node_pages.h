// On which NUMA nodes a process's pages lie, as /proc/PID/numa_maps tells it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "allocator/tools/top/counter_reader.h"

namespace rdmalloc::cli {

// Bytes that are resident.
struct NodePages {
  uint64_t heap = 0;
  uint64_t other = 0;  // the program's files, stacks and mappings of its own
};

struct PlacedPages {
  std::map<unsigned, NodePages> nodes;             // those that have any
  std::map<std::string, uint64_t> heap_by_policy;  // as the kernel writes policies: "bind:0-1"
};

// `heap`: whose window the heap's pages lie in.
PlacedPages read_numa_maps(std::istream& lines, const ProcessCounters& heap);

// Nothing, and errno, when the kernel does not tell: it knows no nodes (ENOENT), or this user may
// not ask (EACCES).
std::optional<PlacedPages> find_placed_pages(pid_t process, const ProcessCounters& heap);

// With the nodes of this machine as hwloc knows them, those without a page of the process included.
nlohmann::ordered_json placed_pages_json(const PlacedPages& pages);
void print_placed_pages(const PlacedPages& pages);

}  // namespace rdmalloc::cli
