#include "allocator/tools/study/study_manual.h"

namespace rdmalloc::cli {
namespace {

ManualPage study() {
  return {
      "study",
      "rdmalloc-study",
      1,
      "compare what allocators and caps cost a program, in memory and time",
      {"rdmalloc study [options] -- PROGRAM ARGS...", "rdmalloc study [options] --trace FILE"},
      false,
      {{"DESCRIPTION",
        {"Runs PROGRAM under each installed allocator (glibc, jemalloc, mimalloc, tcmalloc) and "
         "under rdmalloc: not pinned, pinned, and pinned up to several caps, each as often as "
         "--repeats says, in turns. Meanwhile it samples the memory of the program's processes. "
         "It stays below one hundredth of a processor by leaving out samples that would cost "
         "more, and says what it took. Afterwards it says in words what never giving memory back "
         "costs this program, what pinning costs, and which cap is enough: more, less, or that it "
         "cannot be told, with the 95 % interval of what was measured and with what would settle "
         "it. Nothing is concluded from fewer than three runs, or of time from runs below 0.1 s.",
         "Resident memory is the sum over processes (statm), which counts shared pages once for "
         "each process. Where that is cheap enough, the highest sum of proportional shares "
         "(smaps_rollup) is given, too. The peak of a program of one process is the kernel's own "
         "(VmHWM, ru_maxrss), which no sample can miss; that of several is the highest sum that "
         "was sampled. Live, held, pinned and overflow are rdmalloc's own counters, for programs "
         "under it only.",
         "A cap is for each process of the program; shares in --caps are of the most that one of "
         "them held in the first pinned run.",
         "Options that are set in the environment (RDMALLOC_*), such as a limit for the machine, "
         "also apply to the runs under rdmalloc."},
        {}},
       {"FILES",
        {"In the output folder:"},
        {{"report.html", "the figures and charts, in one file"},
         {"plots/", "the same as plots for papers"},
         {"study.json", "everything; samples thinned out to what a chart can show"},
         {"runs.csv", "a line for each run"},
         {"samples.csv", "a line for each sample"},
         {"output/", "what the program wrote to its standard output and error"}}},
       {"EXIT STATUS",
        {},
        {{"0", "every run exited with 0"},
         {"1", "something could not be written; the rest is there"},
         {"2",
          "nothing was run: an option is malformed, an allocator is unknown, or it cannot be "
          "preloaded into the program (statically linked, set-user-id)"},
         {"3", "some runs failed; the report says how"},
         {"126", "the program was found but could not be executed"},
         {"127", "the program was not found"},
         {"130", "interrupted; everything measured until then is there"}}},
       {"EXAMPLES",
        {},
        {{"rdmalloc study -- python3 job.py", "everything, three times"},
         {"rdmalloc study --allocators glibc,rdmalloc --caps 64M,128M --repeats 5 -o out -- "
          "./solver",
          "two allocators, two caps in bytes"},
         {"rdmalloc study --set huge=thp --caps none -- ./solver",
          "rdmalloc with huge pages beside it without"}}}}};
}

}  // namespace

std::vector<ManualPage> study_pages() { return {study()}; }

}  // namespace rdmalloc::cli
