// Where pages lie on a machine with four nodes, according to the kernel.
//
//   placement touch [domain]       one thread allocates an array, each other thread touches its
//                                  part: the part lies on that thread's node; `domain`: with a
//                                  domain open, which registers the array afterwards
//   placement policy NAME          under the memory policy interleave, bind or preferred, set as
//                                  numactl does, memory lies where the policy says
//   placement told RDMALLOC        what `rdmalloc stats --numa` reports agrees
//   placement turns                threads of all nodes use the same amount of memory in turn: the
//                                  resident size stays within that and a quarter more
#include <linux/mempolicy.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/guest/keys.h"
#include "tests/guest/on_node.h"

namespace {

constexpr int kAllNodes = 4;
constexpr size_t kArray = size_t{64} << 20;
constexpr size_t kPart = kArray / kAllNodes;
// One that lies across the border of two parts is on the node that touched it first.
constexpr size_t kHuge = size_t{2} << 20;
constexpr double kNearlyAll = 0.98;
probe::Verdict verdict;

using Shares = std::array<double, kAllNodes>;

// Counts only pages that are present.
Shares shares_of(const char* from, size_t bytes) {
  std::vector<void*> pages;
  for (size_t at = 0; at < bytes; at += probe::kPage) {
    pages.push_back(const_cast<char*>(from) + at);
  }
  std::vector<int> where(pages.size());
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, where.data(), 0) != 0) {
    probe::skip("move_pages cannot be asked");
  }
  Shares shares{};
  for (const int node : where) {
    if (node >= 0 && node < kAllNodes) shares[static_cast<size_t>(node)] += 1;
  }
  for (double& share : shares) share /= static_cast<double>(pages.size());
  return shares;
}

std::string text(const Shares& shares) {
  std::string all;
  for (const double share : shares) all += " " + std::to_string(share);
  return all;
}

char* allocate(size_t bytes) {
  auto* const got = static_cast<char*>(malloc(bytes));
  if (got == nullptr) probe::refused("out of memory");
  return got;
}

char* touch_by_all() {
  char* array = nullptr;
  guest::on_node(0, [&] { array = allocate(kArray); });
  for (int node = kAllNodes - 1; node >= 0; --node) {
    guest::on_node(node, [&] { memset(array + static_cast<size_t>(node) * kPart, 1, kPart); });
  }
  return array;
}

void check_parts(const char* array, const char* when) {
  for (int node = 0; node < kAllNodes; ++node) {
    const char* const part = array + static_cast<size_t>(node) * kPart;
    const Shares shares = shares_of(part + kHuge, kPart - 2 * kHuge);
    if (shares[static_cast<size_t>(node)] < kNearlyAll) {
      verdict.broken("%s: node %d's part lies at%s", when, node, text(shares).c_str());
      (void)!system("grep -h MemFree /sys/devices/system/node/node*/meminfo");
    }
  }
}

void check_touch() { check_parts(touch_by_all(), "fresh memory"); }

void check_touch_with_domain() {
  if (!probe::library().loaded()) probe::skip("needs the library");
  guest::RcPair pair;
  rdm_domain* const domain = guest::open_domain(pair, IBV_ACCESS_LOCAL_WRITE, 0);
  char* const array = touch_by_all();
  check_parts(array, "beside a domain");
  rdm_mr mr{};
  if (guest::domains().lookup(domain, array, kArray, &mr) != RDM_OK) {
    verdict.broken("what was touched by all has no key");
  }
  check_parts(array, "registered");
}

// The table of nodes: node, processors, its memory, the heap's bytes on it, the bytes of others.
void check_told(const char* rdmalloc) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  check_parts(touch_by_all(), "fresh memory");
  const std::string command =
      std::string(rdmalloc) + " stats --numa " + std::to_string(getpid()) + " 2>&1";
  FILE* const output = popen(command.c_str(), "re");
  if (output == nullptr) return verdict.broken("the command could not be started");
  char line[256];
  int nodes = 0;
  while (fgets(line, sizeof line, output) != nullptr) {
    fputs(line, stdout);
    size_t heap = 0;
    int node = 0;
    if (sscanf(line, " %d %*u %*u %zu %*u", &node, &heap) != 2) continue;
    ++nodes;
    if (heap < kPart - kHuge || heap > kPart + kPart / 2)
      verdict.broken("node %d holds otherwise", node);
  }
  if (pclose(output) != 0 || nodes != kAllNodes) verdict.broken("the command tells of %d", nodes);
}

// A policy and the share of memory that each node is to have under it.
struct Policy {
  const char* name;
  int mode;
  unsigned long nodes;
  Shares shares;
};
constexpr Policy kPolicies[] = {{"interleave", MPOL_INTERLEAVE, 0xf, {.25, .25, .25, .25}},
                                {"bind", MPOL_BIND, 1 << 2, {0, 0, 1, 0}},
                                {"preferred", MPOL_PREFERRED, 1 << 3, {0, 0, 0, 1}}};

const Policy* find_policy(const std::string& name) {
  for (const Policy& one : kPolicies) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

// As numactl does: the policy survives exec. So does the ban on huge pages: spread as units, they
// would be too few to measure shares.
int start_under(const Policy& policy, char** argv) {
  if (syscall(SYS_set_mempolicy, policy.mode, &policy.nodes, 8 * sizeof policy.nodes) != 0) {
    probe::skip("no memory policy can be set");
  }
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  std::string mode = "under";
  char* const words[] = {argv[0], mode.data(), argv[2], nullptr};
  execv("/proc/self/exe", words);
  return probe::kBroken;
}

void check_share(const Policy& policy, const Shares& found, const char* what) {
  for (size_t node = 0; node < kAllNodes; ++node) {
    const double off = found[node] - policy.shares[node];
    if (off > 1 - kNearlyAll || off < kNearlyAll - 1) {
      verdict.broken("%s: %s lies at%s", policy.name, what, text(found).c_str());
      return;
    }
  }
}

void check_under(const Policy& policy) {
  char* const array = touch_by_all();
  check_share(policy, shares_of(array, kArray), "a large block");
  // Enough that the first pages, which the loader touched, do not matter.
  constexpr size_t kSmall = 1024;
  std::vector<char*> small;
  Shares sum{};
  guest::on_node(1, [&] {
    for (size_t i = 0; i < (size_t{32} << 20) / kSmall; ++i) {
      small.push_back(allocate(kSmall));
      memset(small.back(), 1, kSmall);
    }
  });
  size_t pages = 0;
  for (char* object : small) {
    if (reinterpret_cast<uintptr_t>(object) % probe::kPage >= kSmall) continue;
    auto* const page = object - reinterpret_cast<uintptr_t>(object) % probe::kPage;
    const Shares one = shares_of(page, probe::kPage);
    for (size_t node = 0; node < kAllNodes; ++node) sum[node] += one[node];
    ++pages;
  }
  for (double& share : sum) share /= static_cast<double>(pages);
  check_share(policy, sum, "small objects");
}

size_t resident() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t pages = 0;
  statm >> total >> pages;
  return pages * probe::kPage;
}

void check_turns() {
  constexpr size_t kTurn = size_t{200} << 20;
  const size_t before = resident();
  size_t most = 0;
  for (int round = 0; round < 2; ++round) {
    for (int node = 0; node < kAllNodes; ++node) {
      guest::on_node(node, [&] {
        char* const block = allocate(kTurn);
        memset(block, 1, kTurn);
        most = std::max(most, resident() - before);
        free(block);
      });
    }
  }
  printf("%zu MiB for turns of %zu\n", most >> 20, kTurn >> 20);
  if (most > kTurn + kTurn / 4) verdict.broken("more than a quarter too much");
}

}  // namespace

int main(int argc, char** argv) {
  if (access("/sys/devices/system/node/node3", F_OK) != 0) probe::skip("there are not four nodes");
  const std::string mode = argc > 1 ? argv[1] : "";
  const Policy* const policy = find_policy(argc > 2 ? argv[2] : "");
  if (mode == "touch") {
    argc > 2 ? check_touch_with_domain() : check_touch();
  } else if (mode == "told" && argc > 2) {
    check_told(argv[2]);
  } else if (mode == "policy" && policy != nullptr) {
    return start_under(*policy, argv);
  } else if (mode == "under" && policy != nullptr) {
    check_under(*policy);
  } else if (mode == "turns") {
    check_turns();
  } else {
    printf("placement: no such mode\n");
    return 2;
  }
  return verdict.status();
}
