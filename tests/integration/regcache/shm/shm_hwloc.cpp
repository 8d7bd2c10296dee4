// A rank's part of a segment is bound to its NUMA node through hwloc. This program intercepts
// hwloc's call, and makes hwloc believe that the machine has two nodes; they need not exist.
//
//   shm_hwloc bound       the whole part is bound to the node where the rank runs
//   shm_hwloc unbound     the control: a rank that asks not to be bound is not
//   shm_hwloc one_node    nothing is bound on a machine with one node
//   shm_hwloc unfinished  the creator is killed there, with a name but without a part: others are
//                         told soon
#include <hwloc.h>

#include <chrono>

#include "tests/integration/regcache/shm/shm_launch.h"

using namespace shm_test;

namespace {

struct Bound {
  uintptr_t begin;
  size_t bytes;
  int policy;
  unsigned processors;
};
std::vector<Bound> bound;
bool hangs = false;

}  // namespace

extern "C" int hwloc_set_area_membind(hwloc_topology_t, const void* address, size_t bytes,
                                      hwloc_const_bitmap_t set, hwloc_membind_policy_t policy,
                                      int) {
  while (hangs) pause();
  bound.push_back({reinterpret_cast<uintptr_t>(address), bytes, static_cast<int>(policy),
                   static_cast<unsigned>(hwloc_bitmap_weight(set))});
  return 0;
}

namespace {

constexpr unsigned kPatienceMs = 60'000;

void create_alone(bool unbound) {
  const std::string name = fresh_name("hwloc");
  const rdm_shm_plan_options plan = plan_for(1, RDM_SHM_AGGREGATED);
  rdm_shm_options options = patience(kPatienceMs);
  options.unbound = unbound ? 1 : 0;
  rdm_shm* shm = nullptr;
  if (rdm_shm_create(name.c_str(), &plan, 0, &options, &shm) != RDM_OK) {
    broken("creating: %s", rdm_shm_last_error());
  }
  rdm_shm_detach(shm);
}

// The whole segment except the header, which all ranks share.
int expect_bound() {
  create_alone(false);
  const auto page = static_cast<size_t>(getpagesize());
  rdm_shm_plan rows = {};
  rows.size = sizeof rows;
  const rdm_shm_plan_options plan = plan_for(1, RDM_SHM_AGGREGATED);
  if (rdm_shm_plan_get(&plan, &rows) != RDM_OK || bound.size() != 1) {
    broken("bound %zu times, not once", bound.size());
  }
  const Bound& what = bound.front();
  printf("%zu bytes, policy %d, %u processors\n", what.bytes, what.policy, what.processors);
  const bool is_right = what.begin % page == 0 && what.bytes == rows.bytes - page &&
                        what.policy == HWLOC_MEMBIND_BIND && what.processors == 1;
  return is_right ? 0 : 1;
}

int expect_none(bool unbound) {
  create_alone(unbound);
  return bound.empty() ? 0 : 1;
}

int unfinished() {
  const std::string name = fresh_name("unfinished");
  const pid_t creator = fork();
  if (creator == 0) {
    hangs = true;
    const rdm_shm_plan_options plan = plan_for(2, RDM_SHM_AGGREGATED);
    rdm_shm* shm = nullptr;
    rdm_shm_create(name.c_str(), &plan, 0, nullptr, &shm);
    _exit(1);
  }
  rdm_shm_options options = patience(kPatienceMs);
  options.unbound = 1;
  rdm_shm* shm = nullptr;
  if (rdm_shm_attach(name.c_str(), 1, &options, &shm) != RDM_OK) broken("attaching");
  if (rdm_shm_remove(name.c_str()) != RDM_BUSY) broken("a living creator's name was removed");
  kill(creator, SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  const int status = rdm_shm_commit(shm, RDM_OK);
  const auto length = std::chrono::steady_clock::now() - start;
  end_of(creator);
  if (status != RDM_PEER_DIED) broken("status %d: %s", status, rdm_shm_last_error());
  if (length > std::chrono::milliseconds(kPatienceMs / 2)) broken("told late");
  rdm_shm_detach(shm);
  return is_in_dev_shm(name) ? 1 : 0;
}

}  // namespace

int main(int count, char** argument) {
  const std::string what = count == 2 ? argument[1] : "";
  setenv("HWLOC_SYNTHETIC", what == "one_node" ? "numa:1 pu:64" : "numa:2 pu:64", 1);
  setenv("HWLOC_THISSYSTEM", "1", 1);
  if (what == "bound") return expect_bound();
  if (what == "unbound") return expect_none(true);
  if (what == "one_node") return expect_none(false);
  if (what == "unfinished") return unfinished();
  fprintf(stderr, "usage: shm_hwloc bound|unbound|one_node|unfinished\n");
  return 2;
}
