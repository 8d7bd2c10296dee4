// How the kernel manages memory: what is available, huge pages, NUMA, compaction, overcommit.
#include "allocator/limits/options.h"
#include "allocator/limits/pin_limit.h"
#include "allocator/os/huge_page_size.h"
#include "allocator/os/limits.h"
#include "allocator/tools/doctor/check.h"
#include "allocator/tools/info/system_facts.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/process_status.h"

namespace rdmalloc::cli {
namespace {

// What the huge option requests here: only then does a lack of huge pages matter.
uint64_t huge_wanted() {
  Options options;
  options.load();
  return options.choice(OptionId::huge);
}

Check available() {
  const uint64_t total = os::total_memory();
  const uint64_t left = os::memory_left().to_populate;
  Check check{.name = "memory",
              .found = size_text(left) + " available of " + size_text(total),
              .meaning = "pinned memory stays resident; only memory that is available is pinned",
              .cures = {"ps -e --sort=-rss -o rss,pid,comm | head   (who holds it)"}};
  if (left < total / 8) check.verdict = Verdict::kNote;
  if (left < kTooLittle) check.verdict = Verdict::kProblem;
  return check;
}

Check transparent_huge_pages() {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  const auto enabled = read_choice(folder + "enabled");
  const auto defrag = read_choice(folder + "defrag");
  Check check{
      .name = "THP",
      .found = enabled ? *enabled + ", defrag " + defrag.value_or("unknown") : "unknown",
      .meaning =
          "huge=auto and huge=thp need always or madvise here; otherwise they use base pages",
      .cures = {"echo madvise | sudo tee " + folder + "enabled"}};
  const bool possible = enabled && *enabled != "never";
  if (!possible && huge_wanted() == kHugeThp) check.verdict = Verdict::kNote;
  return check;
}

// Nothing: the kernel has no huge pages of that size, or does not tell.
std::optional<uint64_t> free_huge_pages(const std::string& folder, size_t size) {
  return read_count(folder + "/hugepages-" + std::to_string(size >> 10) + "kB/free_hugepages");
}

std::string huge_pages_text(const std::string& folder, size_t size, const std::string& label) {
  const auto free = free_huge_pages(folder, size);
  const auto total =
      read_count(folder + "/hugepages-" + std::to_string(size >> 10) + "kB/nr_hugepages");
  if (!free || !total) return label + ": none";
  return label + ": " + std::to_string(*free) + " free of " + std::to_string(*total);
}

Check hugetlb(const std::vector<NumaNode>& nodes) {
  const std::string folder = "/sys/kernel/mm/hugepages";
  Check check{.name = "hugetlb"};
  const size_t taken = os::hugetlb_page_size();
  check.found = huge_pages_text(folder, taken, size_text(taken) + " pages");
  for (size_t size = os::next_hugetlb_page_size(0); size != 0;
       size = os::next_hugetlb_page_size(size)) {
    if (size != taken)
      check.found += "; " + huge_pages_text(folder, size, size_text(size) + " pages");
  }
  for (const NumaNode& node : nodes) {
    if (nodes.size() < 2) break;
    const std::string number = std::to_string(node.index);
    const std::string of_node = "/sys/devices/system/node/node" + number + "/hugepages";
    check.found += "; " + huge_pages_text(of_node, taken, "node " + number);
  }
  check.meaning = "huge=hugetlb takes " + size_text(taken) +
                  " pages from their pool, and falls back to base pages when it is empty";
  const std::string pages = std::to_string((size_t{2} << 30) / taken);
  const std::string kib = std::to_string(taken >> 10);
  check.cures = {taken == os::default_hugetlb_page_size()
                     ? "sudo sysctl vm.nr_hugepages=" + pages +
                           "   (2 GiB; at boot: hugepages=" + pages + ")"
                     : "echo " + pages + " | sudo tee " + folder + "/hugepages-" + kib +
                           "kB/nr_hugepages   (2 GiB)"};
  const bool empty = free_huge_pages(folder, taken).value_or(0) == 0;
  if (empty && huge_wanted() == kHugeHugetlb) check.verdict = Verdict::kNote;
  return check;
}

Check numa(const std::vector<NumaNode>& nodes) {
  const auto balancing = read_count("/proc/sys/kernel/numa_balancing");
  Check check{.name = "NUMA", .found = count_text(nodes.size(), "node")};
  for (const NumaNode& node : nodes) check.found += ", " + size_text(node.memory);
  if (nodes.size() < 2) return check;
  check.found += ", balancing " + (balancing ? std::to_string(*balancing) : "unknown");
  check.meaning =
      "balancing unmaps pages to see who uses them and moves locked ones that no device holds: it "
      "costs faults and undoes placement";
  check.cures = {"sudo sysctl kernel.numa_balancing=0"};
  if (balancing.value_or(0) != 0) check.verdict = Verdict::kNote;
  return check;
}

Check compaction() {
  const auto allowed = read_count("/proc/sys/vm/compact_unevictable_allowed");
  Check check{.name = "compaction",
              .found = "vm.compact_unevictable_allowed " +
                       (allowed ? "is " + std::to_string(*allowed) : std::string("unknown")),
              .meaning =
                  "with 1, compaction moves locked pages that no device holds, which stalls "
                  "threads that touch "
                  "them; pages that are registered with a device stay",
              .cures = {"sudo sysctl vm.compact_unevictable_allowed=0"}};
  if (allowed.value_or(0) != 0) check.verdict = Verdict::kNote;
  return check;
}

Check overcommit() {
  const auto mode = read_count("/proc/sys/vm/overcommit_memory");
  Check check{.name = "overcommit",
              .found = "vm.overcommit_memory " + (mode ? "is " + std::to_string(*mode) : "unknown"),
              .meaning =
                  "with 2, memory counts when it is made writable, against vm.overcommit_ratio; "
                  "the window's "
                  "reservation does not count",
              .cures = {"sudo sysctl vm.overcommit_memory=0"}};
  if (mode.value_or(0) != 2) return check;
  const std::string memory = read_text("/proc/meminfo").value_or("");
  const uint64_t limit = parse_kib_line(memory, "CommitLimit:").value_or(0);
  const uint64_t used = parse_kib_line(memory, "Committed_AS:").value_or(0);
  const uint64_t left = limit > used ? limit - used : 0;
  check.found += ", " + size_text(left) + " left to commit";
  check.verdict = left < kTooLittle ? Verdict::kProblem : Verdict::kNote;
  return check;
}

}  // namespace

std::vector<Check> memory_checks() {
  const std::vector<NumaNode> nodes = numa_nodes();
  return {available(), transparent_huge_pages(), hugetlb(nodes), numa(nodes), compaction(),
          overcommit()};
}

}  // namespace rdmalloc::cli
