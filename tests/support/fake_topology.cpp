#include "allocator/os/topology.h"

#include "tests/support/fake_state.h"

namespace rdmalloc {
namespace {
thread_local int node_of_thread = 0;
}  // namespace

namespace fake {
void set_node(int node) { node_of_thread = node; }
}  // namespace fake

namespace os {
int current_node() { return node_of_thread; }
bool has_several_nodes() { return fake::machine().nodes > 1; }
bool has_memory_policy() { return fake::machine().has_policy; }
int node_of_pages(const void* address, size_t bytes) { return fake::node_of_pages(address, bytes); }
}  // namespace os
}  // namespace rdmalloc
