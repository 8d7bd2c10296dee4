#include "allocator/os/topology.h"

#include <linux/mempolicy.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "allocator/os/confinement.h"
#include "allocator/os/file.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/memory.h"
#include "allocator/os/newer_headers.h"
#include "allocator/os/processor.h"

namespace rdmalloc::os {
namespace {

// The node of each processor, plus 1; 0: not known yet.
constinit std::atomic<uint8_t> node_of_processor[kMostProcessors] = {};

void remember(uint64_t processor, int node) {
  if (processor >= kMostProcessors) return;
  node_of_processor[processor].store(static_cast<uint8_t>(node + 1), std::memory_order_relaxed);
}

// "0-3,8\n": the processors of a node.
void remember_list(Text list, int node) {
  uint64_t first = 0;
  while (parse_decimal(list, &first, &list)) {
    uint64_t last = first;
    if (list.starts_with(text("-"))) (void)parse_decimal(list.drop(1), &last, &list);
    for (uint64_t i = first; i <= last && i < kMostProcessors; ++i) remember(i, node);
    if (!list.starts_with(text(","))) return;
    list = list.drop(1);
  }
}

// False for an error in place of the node, for example for a page that is not populated.
bool is_node(int found) { return found >= 0 && found < kMaxNodes; }

}  // namespace

int current_node() {
  const unsigned here = current_processor();
  if (here < kMostProcessors) {
    const unsigned known = node_of_processor[here].load(std::memory_order_relaxed);
    if (known != 0) return static_cast<int>(known - 1);
  }
  if (!may_ask_for_number()) return 0;
  const KeepErrno keep;
  unsigned processor = 0;
  unsigned node = 0;
  if (getcpu(&processor, &node) != 0 || node >= kMaxNodes) return 0;
  remember(processor, static_cast<int>(node));
  return static_cast<int>(node);
}

void remember_nodes() {
  if (!has_several_nodes()) return;
  constexpr char kFolder[] = "/sys/devices/system/node/node";
  constexpr char kFile[] = "/cpulist";
  for (int node = 0; node < kMaxNodes; ++node) {
    const Decimal number(static_cast<uint64_t>(node));
    char path[sizeof kFolder + sizeof kFile + 3];
    char* end = stpcpy(path, kFolder);
    end = stpcpy(end, number.c_string());
    stpcpy(end, kFile);
    char list[512];
    const ssize_t got = read_file(path, list, sizeof list);
    if (got > 0) remember_list({list, static_cast<size_t>(got)}, node);
  }
}

bool has_several_nodes() {
  char online[64];
  const ssize_t got = read_file("/sys/devices/system/node/online", online, sizeof online);
  return got > 0 && !(Text{online, static_cast<size_t>(got)} == text("0\n"));
}

bool has_memory_policy() {
  if (is_confined()) return false;
  const KeepErrno keep;
  int policy = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) != 0) return false;
  return policy != MPOL_DEFAULT && policy != MPOL_LOCAL;
}

int node_of_pages(const void* address, size_t bytes) {
  if (is_confined()) return kNoNode;
  const KeepErrno keep;
  constexpr size_t kSamples = 9;
  const size_t pages = bytes / page_size();
  const size_t count = std::min(pages, kSamples);
  const void* sample[kSamples];
  int found[kSamples];
  for (size_t i = 0; i < count; ++i) {
    sample[i] = static_cast<const char*>(address) + pages * i / count * page_size();
  }
  // With no target nodes, move_pages only reports where the pages are.
  if (count == 0 || syscall(SYS_move_pages, 0, count, sample, nullptr, found, 0) != 0) {
    return kNoNode;
  }
  const auto there = std::count_if(found, found + count, is_node);
  if (there == 0) return kNoNode;
  for (size_t i = 0; i < count; ++i) {
    if (is_node(found[i]) && std::count(found, found + count, found[i]) * 2 > there) {
      return found[i];
    }
  }
  return kSeveralNodes;
}

}  // namespace rdmalloc::os
