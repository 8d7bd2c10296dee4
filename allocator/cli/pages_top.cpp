// The prose of top's and stats' pages.
#include "allocator/cli/pages_top.h"

namespace rdmalloc::cli {
namespace {

Page top() {
  return {
      "top",
      "rdmalloc-top",
      1,
      "show who on this node has pinned how much, and who has too much",
      {"rdmalloc top [--all] [--pid PID]... [--user USER] [--json] [--watch[=SECONDS]]"},
      false,
      {{"DESCRIPTION",
        {"Lists the processes of this node that pin or lock memory or run under rdmalloc, as far "
         "as this user may see them, those with most pinned first. What the kernel says of them "
         "(RSS, VmPin, VmLck, the limit on locked memory) is there for all. What is held, pinned, "
         "live and overflow is told by processes under rdmalloc, to their own user and to root, "
         "without their help. \"-\" is what is not known.",
         "Where the user's processes share a limit for the node (RDMALLOC_NODE_CAP), their ledger "
         "tells what each was granted and what is left. It is that of RDMALLOC_LEDGER, or the "
         "user's own; a ledger that cannot be read costs a sentence.",
         "In names of processes and users, a question mark stands for each byte that is not "
         "printable ASCII."},
        {}},
       {"COLUMNS",
        {"Sizes are bytes with K, M, G and so on (powers of 1024)."},
        {{"RSS, VMPIN, VMLCK",
          "resident; pinned by registrations (each counts, so the same page may count several "
          "times); locked by mlock"},
         {"HELD, PINNED, LIVE, OVERFL",
          "of the heap: all regions; those that are pinned; in use; those that were beyond the "
          "budget and are not pinned"},
         {"CAP, MEMLOCK", "most of the heap that may be pinned; the soft limit on locked memory"},
         {"DOM", "registration domains open"},
         {"GRANT", "what the ledger grants it, of the node's limit or of its control group's"},
         {"OVER",
          "what it has too much of. overflow: it holds memory that it could not pin. over memlock: "
          "VmLck or VmPin is above its soft limit; by right: its CAP_IPC_LOCK lets it. over share: "
          "more of the node's limit than an even share, while less than one is left to others"}}},
       {"KEYS",
        {"With --watch on a terminal; elsewhere one table, or one line of JSON, is printed after "
         "the other."},
        {{"q", "quit"},
         {"arrows, page up, page down, home, end", "scroll"},
         {"p", "sort by what is pinned and locked together (VMPIN + VMLCK)"},
         {"i u n r v k h e l o c m d g w",
          "sort by PID, USER, NAME, RSS, VMPIN, VMLCK, HELD, PINNED, LIVE, OVERFL, CAP, MEMLOCK, "
          "DOM, GRANT, OVER"},
         {"R", "the other way round"},
         {"a", "as --all, or not"}}},
       {"JSON",
        {"An object with format (\"rdmalloc-top\"), version, date, processes_seen, "
         "processes_unreadable, notes (sentences), ledger (path, kept, trouble, processes, "
         "cap_bytes, granted_bytes, left_bytes), totals, and processes. Each of these has pid, "
         "user, uid, effective_uid, name, resident_bytes, vm_pin_bytes, vm_lck_bytes, rdmalloc "
         "(whether its counters were read), held_bytes, pinned_bytes, live_bytes, overflow_bytes, "
         "budget_bytes, budget_limited_by, memory_cap_bytes, domains, registered_bytes, "
         "registered_pinned_bytes, memlock_bytes, memlock_unlimited, may_lock_all, granted_bytes, "
         "over (words). null is what is not known."},
        {}},
       {"EXIT STATUS",
        {},
        {{"0", "the node was looked at"},
         {"1", "a process that --pid asked for is not there, or nobody read the output"},
         {"2", "an option is malformed, or /proc cannot be read"}}},
       {"EXAMPLES",
        {},
        {{"rdmalloc top", "who has what, now"},
         {"rdmalloc top --watch", "the same each second, on the whole screen"},
         {"rdmalloc top --json --watch=10 >> pinned.jsonl", "a line each ten seconds"}}}}};
}

Page stats() {
  return {
      "stats",
      "rdmalloc-stats",
      1,
      "show the heap statistics of a running process",
      {"rdmalloc stats PID [--numa] [--json]"},
      false,
      {{"DESCRIPTION",
        {"Prints what a process that runs under rdmalloc says of its heap now, and of each phase "
         "that it began with rdm_phase(): times entered, seconds, and the peaks meanwhile. The "
         "process is neither stopped nor signalled; it keeps its counters in a page that others "
         "may read: root, and its own user. The JSON keys are those of the report (rdmalloc run "
         "--report), and pid, name and phases."},
        {}},
       {"NUMA",
        {"With --numa the resident bytes on each node follow, those of the heap and all other "
         "(files, stacks, mappings of the program's own), beside the node's processors and memory; "
         "and under which memory policies (set_mempolicy, mbind, numactl) the heap's pages came, "
         "as the kernel writes them. For that the kernel walks the process's page tables, and the "
         "process's own mmap and munmap wait meanwhile. In the JSON: numa, with nodes (node, "
         "processors, memory_bytes, heap_resident_bytes, other_resident_bytes; "
         "null where hwloc does not know the node) and policies (policy, heap_resident_bytes)."},
        {}},
       {"EXIT STATUS",
        {},
        {{"0", "the statistics were printed"},
         {"1",
          "there is no such process, it is not under rdmalloc, or this user may not look at it: "
          "a sentence says which"},
         {"2", "the process id is malformed"}}}}};
}

}  // namespace

std::vector<Page> top_pages() { return {top(), stats()}; }

}  // namespace rdmalloc::cli
