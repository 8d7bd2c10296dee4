// The prose of the manual pages of `rdmalloc trace` and its verbs.
#include "allocator/tools/trace/trace_manual.h"

namespace rdmalloc::cli {
namespace {

ManualPage trace() {
  return {
      "trace",
      "rdmalloc-trace",
      1,
      "record, replay and look at allocation traces",
      {"rdmalloc trace record [options] [--] PROGRAM ARGS...",
       "rdmalloc trace replay|import|text|info [options] FILE"},
      false,
      {{"DESCRIPTION",
        {"A trace is a file of every allocation that a program made, resized and freed, with its "
         "size, alignment, thread and time: enough to make the same calls again without the "
         "program, under any allocator. It holds sizes and times only, never the contents of "
         "memory."},
        {}}}};
}

ManualPage record() {
  return {
      "trace record",
      "rdmalloc-trace-record",
      1,
      "record the allocations of a program's run",
      {"rdmalloc trace record [options] [--] PROGRAM ARGS..."},
      false,
      {{"DESCRIPTION",
        {"Runs PROGRAM with a recorder in front of whatever malloc it has, and writes a trace of "
         "it: every call of the malloc family and of C++'s operators, with its size, alignment, "
         "thread and time. Nothing recorded is lost: a program that crashes or is killed leaves a "
         "trace of all that it did.",
         "The trace is made when PROGRAM has ended. Until then each process writes to a file of "
         "its own in a folder beside the trace, which takes 4 to 24 bytes for a call and is "
         "removed afterwards; --limit bounds it. A child of fork, and a program that is executed, "
         "are separate processes: of several, the one that called malloc most becomes the trace.",
         "Left out are frees of memory that was allocated before the recording, or by the "
         "process's parent before fork, and allocations of a malloc that the program has linked "
         "in. What C++ rounds up is rounded up in the trace, too. In a program with one thread "
         "that calls malloc several million times a second, the time of a small allocation may be "
         "that of one of the seven calls before.",
         "Afterwards a line on standard error says what recording cost: the number of calls times "
         "the cost of a call on this machine, which is measured then, relative to the program's "
         "CPU time. It does not include what the recorder's memory traffic costs the program's "
         "caches."},
        {}},
       {"EXIT STATUS",
        {"The program's own (a signal that killed it kills this command, too), or:"},
        {{"1", "the program ended with 0, and the trace could not be written, or not all of it"},
         {"2",
          "nothing was run: an option is malformed, the trace could not be written, or the "
          "recorder cannot be preloaded into the program"},
         {"126", "the program was found but could not be executed"},
         {"127", "the program was not found"}}},
       {"EXAMPLES",
        {},
        {{"rdmalloc trace record -o solver.rdtrace -- ./solver input.dat",
          "leaves what it allocated in solver.rdtrace"},
         {"rdmalloc trace record --process cc1plus -- make", "a trace of the largest compilation"},
         {"rdmalloc trace record --under jemalloc -- ./server",
          "the same, with jemalloc below the recorder"}}}}};
}

ManualPage replay() {
  return {
      "trace replay",
      "rdmalloc-trace-replay",
      1,
      "make the allocations of a trace again, under an allocator",
      {"rdmalloc trace replay [options] FILE"},
      false,
      {{"DESCRIPTION",
        {"Starts rdmalloc-replay with the allocator in front of LD_PRELOAD, in the same process. "
         "It makes the calls of the trace again, in exactly the recorded order, each in a thread "
         "that stands for the recorded one: a thread sleeps until its turn comes. So two replays "
         "make the same requests, whatever the allocator; the last line has a digest of them.",
         "The whole trace is read before the first call is made: a trace that frees what is not "
         "alive is refused. The replay's own data does not come from malloc: 24 bytes for each "
         "object alive at once, and a few MiB at most to read the trace, part by part. The last "
         "line says how long the calls took, and how long reading did.",
         "Blocks are written to, one byte in each page, because untouched memory is not resident. "
         "The flags for rdmalloc's options are those of rdmalloc run, and are for --under "
         "rdmalloc."},
        {}},
       {"EXIT STATUS",
        {},
        {{"0", "the trace was replayed"},
         {"1", "the allocator failed: it had no memory, or --check found a block changed"},
         {"2", "nothing was replayed: an option is malformed, or the trace is damaged"},
         {"3", "the trace is cut off, and was replayed as far as it goes"}}},
       {"EXAMPLES",
        {},
        {{"rdmalloc trace replay --under glibc cc1.rdtrace", "the same calls, under libc's malloc"},
         {"rdmalloc trace replay --cap 64M --report heap.json cc1.rdtrace",
          "under rdmalloc with at most 64 MiB pinned, and leaves its statistics in heap.json"}}}}};
}

ManualPage import() {
  return {
      "trace import",
      "rdmalloc-trace-import",
      1,
      "make a trace from text",
      {"rdmalloc trace import TEXT FILE"},
      false,
      {{"DESCRIPTION",
        {"Reads TEXT, or standard input if TEXT is -, and writes the trace FILE. For a wrong line "
         "it says what was expected there; FILE is then not written. Files that glibc's mtrace() "
         "wrote can be imported, too; frees of memory that was allocated before it began are left "
         "out and counted."},
        {}},
       {"FORMAT",
        {"One event in a line, in the order in which they happened; rdmalloc trace text prints the "
         "same format. Words in brackets may be left out."},
        {{"a OBJECT SIZE [ALIGNMENT] [thread N] [at NS]", "allocates, as malloc or aligned_alloc"},
         {"z OBJECT SIZE [ALIGNMENT] [thread N] [at NS]", "allocates zeroed memory, as calloc"},
         {"r OBJECT SIZE [thread N] [at NS]", "resizes, as realloc"},
         {"f OBJECT [thread N] [at NS]", "frees"},
         {"program WORDS", "what was recorded; before the first event"},
         {"# WORDS", "a comment; empty lines are skipped, too"},
         {"OBJECT", "any word that no other living object has: a number, a name, an address"},
         {"SIZE", "bytes, or with K, M, G or T (powers of 1024)"},
         {"ALIGNMENT", "bytes, a power of two"},
         {"N", "the number of a thread; by default that of the line before, 0 at first"},
         {"NS",
          "nanoseconds since the beginning, never decreasing; by default those of the line before, "
          "0 at first. A trace keeps microseconds"}}},
       {"EXIT STATUS",
        {},
        {{"0", "the trace was written"},
         {"2", "a line is wrong, or a file could not be read or written"}}},
       {"EXAMPLES",
        {},
        {{"printf 'a x 100\\na y 4K 64\\nr x 1M\\nf x\\nf y\\n' | rdmalloc trace import - "
          "small.rdtrace",
          "a trace of five events"}}}}};
}

ManualPage text() {
  return {"trace text",
          "rdmalloc-trace-text",
          1,
          "print a trace as text",
          {"rdmalloc trace text FILE"},
          false,
          {{"DESCRIPTION",
            {"Prints one line for each event, in the format that rdmalloc trace import reads and "
             "its page describes: importing what is printed gives the same trace."},
            {}},
           {"EXIT STATUS",
            {},
            {{"0", "all of the trace was printed"},
             {"2", "the file is no trace, or is damaged: what comes before was printed"},
             {"3", "the trace is cut off, and was printed as far as it goes"}}}}};
}

ManualPage trace_info() {
  return {"trace info",
          "rdmalloc-trace-info",
          1,
          "summarize a trace",
          {"rdmalloc trace info [--json] FILE"},
          false,
          {{"DESCRIPTION",
            {"Prints what was recorded, the number of events and threads, the time, the most bytes "
             "and objects alive at once, what was still alive at the end, and how many "
             "allocations and resizes asked for which sizes."},
            {}},
           {"EXIT STATUS",
            {},
            {{"0", "all of the trace was read"},
             {"2", "the file is no trace, or is damaged"},
             {"3", "the trace is cut off; this describes the part that is there"}}}}};
}

}  // namespace

std::vector<ManualPage> trace_pages() {
  const ManualPage cost{
      "trace cost", "rdmalloc-trace-cost", 1, "measure what recording a call costs", {}, true, {}};
  return {trace(), record(), replay(), import(), text(), trace_info(), cost};
}

}  // namespace rdmalloc::cli
