// The prose of the manual pages of top and stats.
#include "allocator/tools/top/top_manual.h"

namespace rdmalloc::cli {
namespace {

ManualPage top() {
  return {
      "top",
      "rdmalloc-top",
      1,
      "show who on this node has pinned how much, and who has too much",
      {"rdmalloc top [--all] [--pid PID]... [--user USER] [--json] [--watch[=SECONDS]]"},
      false,
      {{"DESCRIPTION",
        {"Lists the processes of this machine that pin or lock memory or run under rdmalloc, as "
         "far as this user may see them, those with most pinned memory first. What the kernel "
         "knows (RSS, VmPin, VmLck, the limit on locked memory) is shown for all. Held, pinned, "
         "live and overflow come from the counters of processes under rdmalloc, which their own "
         "user and root may read, without stopping them. \"-\" means unknown.",
         "If the user's processes share a limit for the machine (RDMALLOC_NODE_CAP), their ledger "
         "says what each was granted and what is left. It is the file of RDMALLOC_LEDGER, or the "
         "user's own; if a ledger cannot be read, a line says so.",
         "In names of processes and users, a question mark stands for each byte that is not "
         "printable ASCII."},
        {}},
       {"COLUMNS",
        {"Sizes are bytes with K, M, G and so on (powers of 1024). On a terminal that is too "
         "narrow for all columns, those that matter least are left out, names are cut, and OVER is "
         "short: \"memlock\" for \"over memlock\", \"by right\" for \"over memlock by right\" "
         "where "
         "that is all. Elsewhere the table has all columns. On a terminal, who has too much, and "
         "not just by right, is red, unless NO_COLOR is set."},
        {{"RSS, VMPIN, VMLCK",
          "resident; pinned by registrations (each counts, so the same page may count several "
          "times); locked by mlock"},
         {"HELD, PINNED, LIVE, OVERFL",
          "of the heap: all regions; those that are pinned; in use; those beyond the budget, which "
          "are not pinned"},
         {"CAP, MEMLOCK", "limit on pinned heap memory; the soft limit on locked memory"},
         {"DOM", "open registration domains"},
         {"GRANT", "what the ledger grants it of the machine's or its control group's limit"},
         {"OVER",
          "what it has too much of. overflow: memory that it could not pin. over memlock: VmLck or "
          "VmPin is above its soft limit; by right: CAP_IPC_LOCK allows that. over share: it has "
          "more of the machine's limit than an even share, while less than one is left to "
          "others"}}},
       {"KEYS",
        {"With --watch on a terminal; elsewhere one table, or one line of JSON, is printed after "
         "the other."},
        {{"q", "quit"},
         {"arrows, page up, page down, home, end", "scroll"},
         {"p", "sort by what is pinned and locked together (VMPIN + VMLCK)"},
         {"i u n r v k h e l o c m d g w",
          "sort by PID, USER, NAME, RSS, VMPIN, VMLCK, HELD, PINNED, LIVE, OVERFL, CAP, MEMLOCK, "
          "DOM, GRANT, OVER"},
         {"R", "reverse the order"},
         {"a", "switch --all on or off"}}},
       {"JSON",
        {"An object with format (\"rdmalloc-top\"), version, date, processes_seen, "
         "processes_unreadable, notes (sentences), ledger (path, kept, trouble, processes, "
         "cap_bytes, granted_bytes, left_bytes), totals, and processes. Each of these has pid, "
         "user, uid, effective_uid, name, resident_bytes, vm_pin_bytes, vm_lck_bytes, rdmalloc "
         "(whether its counters were read), held_bytes, pinned_bytes, live_bytes, overflow_bytes, "
         "budget_bytes, budget_limited_by, memory_cap_bytes, domains, registered_bytes, "
         "registered_pinned_bytes, memlock_bytes, memlock_unlimited, may_lock_all, granted_bytes, "
         "over (words). null means unknown."},
        {}},
       {"EXIT STATUS",
        {},
        {{"0", "the table was printed"},
         {"1", "a process that --pid asked for does not exist, or nobody read the output"},
         {"2", "an option is malformed, or /proc cannot be read"}}},
       {"EXAMPLES",
        {},
        {{"rdmalloc top", "who has what, now"},
         {"rdmalloc top --watch", "the same every second, on the whole screen"},
         {"rdmalloc top --json --watch=10 >> pinned.jsonl", "a line every ten seconds"}}}}};
}

ManualPage stats() {
  return {
      "stats",
      "rdmalloc-stats",
      1,
      "show the heap statistics of a running process",
      {"rdmalloc stats PID [--numa] [--json]"},
      false,
      {{"DESCRIPTION",
        {"Prints the heap statistics of a process that runs under rdmalloc, and of each phase "
         "that it began with rdm_phase(): times entered, seconds, and its peaks. The process is "
         "neither stopped nor signalled; root and its own user may read the page in which it keeps "
         "its counters. The JSON keys are those of the report (rdmalloc run --report), and pid, "
         "name and phases."},
        {}},
       {"NUMA",
        {"--numa adds the resident bytes on each node, those of the heap and all others (files, "
         "stacks, the program's own mappings), with the node's processors and memory; and the "
         "memory policies (set_mempolicy, mbind, numactl) under which the heap's pages came, as "
         "the kernel writes them. For that the kernel walks the process's page tables, and the "
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

std::vector<ManualPage> top_pages() { return {top(), stats()}; }

}  // namespace rdmalloc::cli
