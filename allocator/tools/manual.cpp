// The prose of the manual pages.
#include <utility>

#include "allocator/tools/manual_page.h"
#include "allocator/tools/study/study_manual.h"
#include "allocator/tools/top/top_manual.h"
#include "allocator/tools/trace/trace_manual.h"

namespace rdmalloc::cli {
namespace {

ManualPage overview() {
  return {"",
          "rdmalloc",
          1,
          "malloc for buffers that devices read and write",
          {"rdmalloc COMMAND [options]", "rdmalloc run [options] [--] PROGRAM ARGS...",
           "rdmalloc help [COMMAND]"},
          false,
          {{"DESCRIPTION",
            {"rdmalloc takes a program's heap from one reserved window of addresses, pins it and "
             "never gives an address back to the system, so that a buffer that was registered with "
             "a device stays registered. Start a program with rdmalloc run, or link it with "
             "-lrdmalloc."},
            {}}}};
}

ManualPage run() {
  return {
      "run",
      "rdmalloc-run",
      1,
      "run a program with its heap in pinned memory",
      {"rdmalloc run [options] [--] PROGRAM ARGS..."},
      false,
      {{"DESCRIPTION",
        {"Starts PROGRAM with librdmalloc.so in front of LD_PRELOAD, in the same process: process "
         "id, exit status, signals and terminal are the program's own. Each flag sets the "
         "variable of its name (--memory-cap sets RDMALLOC_MEMORY_CAP), which child processes "
         "inherit; a flag wins over a variable that is already set.",
         "A program into which the library cannot be preloaded is refused before it runs: one "
         "that is statically linked, of another architecture or C library, or that gains rights "
         "when executed (set-user-id, set-group-id, file capabilities).",
         "--verbs also preloads librdmalloc-verbs.so: a malloc'd buffer that the program, or a "
         "library such as an MPI, registers with an RDMA device (ibv_reg_mr and its relatives) "
         "gets the key of its region, without a system call. Registrations with remote rights "
         "cover exactly the buffer, unless --share-remote is given: then peers that get a key can "
         "reach the whole heap region around the buffer, with the rights that were asked for. If "
         "there is no room for a registration (ENOMEM), heap regions that are registered but not "
         "in use are deregistered and it is tried again. Calls through dlsym or dlvsym, and a "
         "libibverbs that is linked in statically, are not seen: they register as without us.",
         "--ucx, --ofi and --mpi also preload librdmalloc-ucx.so, librdmalloc-ofi.so and "
         "librdmalloc-mpi.so. The first maps every region into each UCP context that the "
         "program or its MPI makes, so that UCX finds malloc'd buffers registered. The second "
         "tells libfabric's registration cache that the heap's registrations never go stale. The "
         "third makes MPI_Alloc_mem return memory of the heap. They may be combined."},
        {}},
       {"AMOUNTS",
        {"An AMOUNT is bytes with K, M, G or T (powers of 1024), or a share: 50% is of the memory "
         "this process may have (RAM, or its control group's limit), 50%memlock of the limit on "
         "locked memory."},
        {}},
       {"EXIT STATUS",
        {"The program's own, or:"},
        {{"2",
          "nothing was run: an option is unknown or malformed, or the library cannot be preloaded "
          "into the program"},
         {"126", "the program was found but could not be executed"},
         {"127", "the program was not found"}}},
       {"EXAMPLES",
        {},
        {{"rdmalloc run --report heap.json -- ./solver input.dat",
          "leaves the statistics of the run in heap.json"},
         {"rdmalloc run --report heap.%p.json -- make test",
          "one report for each process that make starts"},
         {"rdmalloc run --cap 4G --strict -- ./server",
          "pins at most 4 GiB; beyond that malloc fails instead of continuing unpinned"},
         {"rdmalloc run --verbs --verbs-stats -- ib_send_bw server",
          "registers regions instead of buffers, and says how many calls they answered"}}}}};
}

ManualPage info() {
  return {
      "info",
      "rdmalloc-info",
      1,
      "show what is in force: engine, options, limits",
      {"rdmalloc info [--json]"},
      false,
      {{"DESCRIPTION",
        {"Prints the engine and the library, every option with its value and where that came "
         "from, and what a process started now would get: its window, its budget and what limits "
         "it, and the NUMA nodes. The numbers come from a process that is started under the "
         "library; it also counts how many of its allocations lie in the window, from before its "
         "first constructor on."},
        {}},
       {"EXIT STATUS",
        {},
        {{"0", "every allocation lay in the window"},
         {"1", "the library could not be loaded, or did not take over every allocation"},
         {"2", "an option is unknown"}}}}};
}

ManualPage doctor() {
  return {
      "doctor",
      "rdmalloc-doctor",
      1,
      "check what this system allows, and say how to change it",
      {"rdmalloc doctor [--json | --all]"},
      false,
      {{"DESCRIPTION",
        {"Checks the limits of this process and the kernel, one line for each check: ok; note: "
         "something could be better; problem: the heap, or much of it, would not be pinned. Notes "
         "and problems are followed by what they mean and what to type to change it. The first "
         "line sums up and says which problem to begin with; then come problems, notes, and what "
         "is ok. Features of the kernel are checked by using them, in a child process. Needs no "
         "privileges.",
         "On a terminal the verdicts have colours, unless NO_COLOR is set."},
        {}},
       {"EXIT STATUS",
        {},
        {{"0", "no problem"}, {"1", "at least one problem"}, {"2", "an option is unknown"}}}}};
}

ManualPage options() {
  return {"options",
          "rdmalloc-options",
          1,
          "list the options: variable, flag, default, meaning",
          {"rdmalloc options [--markdown]"},
          false,
          {}};
}

ManualPage shm_plan() {
  return {
      "shm-plan",
      "rdmalloc-shm-plan",
      1,
      "plan a segment of shared memory between processes, to the byte",
      {"rdmalloc shm-plan --procs NUMBER [options]"},
      false,
      {{"DESCRIPTION",
        {"Prints how long a segment of rdm_shm_create() is for a number of processes of one "
         "machine, and what it consists of, in 10^6 bytes and in bytes. A NUMBER may end in K, M "
         "or G (powers of 1024).",
         "The rows and their sizes are those of the RFC to Open MPI that described the problem "
         "(Fragmented sm Allocations, 2009); its case is the default. Its row \"other\" is FIFOs "
         "and max freelists here. Control, padding is what the RFC did not count: a record for "
         "each process, and the rest of its last page.",
         "The RFC's smaller example, with an eager limit of 256 bytes, needs --eager-with-header: "
         "there a fragment takes 256 bytes in total, while elsewhere the RFC adds the header to "
         "the limit."},
        {}},
       {"LAYOUTS",
        {},
        {{"page",
          "between every two processes, in each direction, a circular buffer in three allocations "
          "(wrapper, queue with tail, head), each aligned to a page"},
         {"cacheline", "the same, aligned to cache lines"},
         {"aggregated",
          "one allocation for each process: FIFOs, queues, heads and tails interleaved, wrappers"},
         {"mpsc",
          "no circular buffers: each process has one inbox for all senders, and a few fast boxes "
          "that senders claim; grows with the number of processes instead of its square"}}},
       {"EXIT STATUS",
        {},
        {{"0", "the plan was printed"},
         {"2", "a value is malformed or out of range, or the segment would be too long"}}},
       {"EXAMPLES",
        {},
        {{"rdmalloc shm-plan --procs 1024 --layout page --page-size 8K",
          "the first column of the RFC's table"},
         {"rdmalloc shm-plan --procs 1024 --eager-limit 256 --eager-with-header --queue-entries "
          "16 --chunk-size 8K",
          "the RFC's example of a large job in little memory"}}}}};
}

ManualPage hidden(const char* command, const char* summary) {
  return {command, std::string("rdmalloc-") + command, 1, summary, {}, true, {}};
}

}  // namespace

const std::vector<ManualPage>& all_manual_pages() {
  static const std::vector<ManualPage> pages = [] {
    std::vector<ManualPage> all = {
        overview(),
        run(),
        info(),
        doctor(),
        options(),
        shm_plan(),
        hidden("man", "print a man page as roff"),
        hidden("completion", "print what completes the command's lines in bash"),
        hidden("probe", "allocate under the library and count"),
    };
    for (ManualPage& page : study_pages()) all.push_back(std::move(page));
    for (ManualPage& page : top_pages()) all.push_back(std::move(page));
    for (ManualPage& page : trace_pages()) all.push_back(std::move(page));
    return all;
  }();
  return pages;
}

const ManualPage* find_manual_page(const std::string& command) {
  for (const ManualPage& page : all_manual_pages()) {
    if (page.command == command) return &page;
  }
  return nullptr;
}

}  // namespace rdmalloc::cli
