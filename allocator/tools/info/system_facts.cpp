#include "allocator/tools/info/system_facts.h"

#include <hwloc.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "allocator/tools/child.h"

namespace rdmalloc::cli {

std::optional<std::string> read_text(const std::string& path) {
  std::string text = read_file(path);
  if (text.empty()) return std::nullopt;
  text.resize(text.find_last_not_of('\n') + 1);
  return text;
}

std::optional<uint64_t> read_count(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

std::optional<std::string> read_choice(const std::string& path) {
  std::optional<std::string> text = read_text(path);
  const size_t open = text ? text->find('[') : std::string::npos;
  if (open == std::string::npos) return text;
  return text->substr(open + 1, text->find(']', open) - open - 1);
}

std::string kernel_version() {
  utsname names{};
  return uname(&names) == 0 ? std::string(names.sysname) + " " + names.release : "unknown";
}

bool has_capability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1) != 0;
}

std::vector<NumaNode> numa_nodes() {
  std::vector<NumaNode> nodes;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nodes;
  if (hwloc_topology_load(topology) == 0) {
    hwloc_obj_t node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
      nodes.push_back(
          {node->os_index, node->attr->numanode.local_memory, hwloc_bitmap_weight(node->cpuset)});
    }
  }
  hwloc_topology_destroy(topology);
  return nodes;
}

}  // namespace rdmalloc::cli
