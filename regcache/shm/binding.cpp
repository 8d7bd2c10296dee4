#include "regcache/shm/binding.h"

#include <hwloc.h>

namespace rdmalloc::shm {

namespace {

void bind(hwloc_topology_t topology, void* memory, size_t bytes) {
  if (hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 2) return;
  hwloc_bitmap_t processors = hwloc_bitmap_alloc();
  if (processors == nullptr) return;
  if (hwloc_get_last_cpu_location(topology, processors, HWLOC_CPUBIND_THREAD) == 0) {
    // Binds by processors: hwloc finds the node that is local to them.
    hwloc_set_area_membind(topology, memory, bytes, processors, HWLOC_MEMBIND_BIND, 0);
  }
  hwloc_bitmap_free(processors);
}

}  // namespace

void bind_to_this_node(void* memory, size_t bytes) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return;
  // Nodes and processors are enough; discovering caches and devices takes long.
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(topology) == 0) bind(topology, memory, bytes);
  hwloc_topology_destroy(topology);
}

}  // namespace rdmalloc::shm
