#include "allocator/tools/top/node_pages.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "allocator/tools/info/system_facts.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

// A NUMA node of the machine, and the process's memory on it.
struct NodeRow {
  NumaNode node;
  bool is_known = false;  // to hwloc
  NodePages pages;
};

std::map<unsigned, NodeRow> rows_of(const PlacedPages& placed) {
  std::map<unsigned, NodeRow> rows;
  for (const NumaNode& node : numa_nodes()) rows[node.index] = {node, true, {}};
  for (const auto& [index, pages] : placed.nodes) {
    rows[index].pages = pages;
  }
  return rows;
}

// A line is ADDRESS POLICY [word | KEY=VALUE]..., including N<node>=<pages> and
// kernelpagesize_kB=<size of such a page>.
struct Mapping {
  uint64_t address = 0;
  std::string policy;
  uint64_t page_bytes = 0;
  std::map<unsigned, uint64_t> pages;
};

Mapping parse(const std::string& line) {
  Mapping mapping;
  std::istringstream words(line);
  std::string word;
  words >> word >> mapping.policy;
  mapping.address = std::strtoull(word.c_str(), nullptr, 16);
  while (words >> word) {
    unsigned node = 0;
    unsigned long long count = 0;
    if (sscanf(word.c_str(), "N%u=%llu", &node, &count) == 2) {
      mapping.pages[node] += count;
    } else if (sscanf(word.c_str(), "kernelpagesize_kB=%llu", &count) == 1) {
      mapping.page_bytes = count << 10;
    }
  }
  return mapping;
}

}  // namespace

PlacedPages read_numa_maps(std::istream& lines, const ProcessCounters& heap) {
  PlacedPages placed;
  std::string line;
  while (std::getline(lines, line)) {
    const Mapping mapping = parse(line);
    const bool is_heap = mapping.address - heap.window < heap.window_bytes;
    for (const auto& [node, count] : mapping.pages) {
      const uint64_t bytes = count * mapping.page_bytes;
      (is_heap ? placed.nodes[node].heap : placed.nodes[node].other) += bytes;
      if (is_heap) placed.heap_by_policy[mapping.policy] += bytes;
    }
  }
  return placed;
}

std::optional<PlacedPages> find_placed_pages(pid_t process, const ProcessCounters& heap) {
  errno = 0;
  std::ifstream maps("/proc/" + std::to_string(process) + "/numa_maps");
  if (!maps || maps.peek() == std::ifstream::traits_type::eof()) return std::nullopt;
  return read_numa_maps(maps, heap);
}

ordered_json placed_pages_json(const PlacedPages& placed) {
  auto nodes = ordered_json::array();
  for (const auto& [index, row] : rows_of(placed)) {
    nodes.push_back(
        {{"node", index},
         {"processors", row.is_known ? ordered_json(row.node.processors) : ordered_json()},
         {"memory_bytes", row.is_known ? ordered_json(row.node.memory) : ordered_json()},
         {"heap_resident_bytes", row.pages.heap},
         {"other_resident_bytes", row.pages.other}});
  }
  auto policies = ordered_json::array();
  for (const auto& [policy, bytes] : placed.heap_by_policy) {
    policies.push_back({{"policy", policy}, {"heap_resident_bytes", bytes}});
  }
  return {{"nodes", nodes}, {"policies", policies}};
}

void print_placed_pages(const PlacedPages& placed) {
  printf("\n  %-8s%16s%16s%16s%16s\n", "node", "processors", "memory", "heap", "other");
  for (const auto& [index, row] : rows_of(placed)) {
    const std::string processors = row.is_known ? std::to_string(row.node.processors) : "-";
    const std::string memory = row.is_known ? std::to_string(row.node.memory) : "-";
    printf("  %-8u%16s%16s%16lu%16lu\n", index, processors.c_str(), memory.c_str(), row.pages.heap,
           row.pages.other);
  }
  printf("\n  %-40s%16s\n", "memory policy of the heap's mappings", "heap");
  for (const auto& [policy, bytes] : placed.heap_by_policy) {
    printf("  %-40s%16lu\n", policy.c_str(), bytes);
  }
}

}  // namespace rdmalloc::cli
