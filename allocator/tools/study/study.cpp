#include "allocator/tools/study/study.h"

#include <CLI/CLI.hpp>

namespace rdmalloc::cli::study {

void add_study_flags(CLI::App& app, StudyRequest& request) {
  constexpr int kMostRepeats = 1000;
  app.add_option("--allocators", request.allocators,
                 "allocators to compare, separated by commas: glibc, jemalloc, mimalloc, tcmalloc, "
                 "rdmalloc (default: all that are installed)")
      ->type_name("LIST");
  app.add_option("--caps", request.caps,
                 "caps for rdmalloc, separated by commas: shares of the most that the program "
                 "holds when pinned, or bytes; none for none (default 25%,50%,75%,90%,100%)")
      ->type_name("LIST");
  app.add_option("--set", request.settings,
                 "NAME=VALUE: one more configuration of rdmalloc, with this option set; may be "
                 "given again")
      ->expected(1)
      ->type_name("NAME=VALUE");
  app.add_option("--repeats", request.repeats, "runs of each configuration (default 3)")
      ->check(CLI::Range(1, kMostRepeats))
      ->type_name("NUMBER");
  app.add_option("--rate", request.rate_hz, "samples in a second (default 100)")
      ->type_name("HERTZ");
  app.add_option("--linger", request.linger_seconds,
                 "seconds to wait for processes that outlive the program (default 2)")
      ->type_name("SECONDS");
  app.add_option("--timeout", request.timeout_seconds, "seconds after which a run is ended")
      ->type_name("SECONDS");
  app.add_option("--stdin", request.input, "the program's standard input (default /dev/null)")
      ->type_name("FILE");
  app.add_option("--trace", request.trace,
                 "replay this recorded trace of allocations, instead of running a program")
      ->type_name("FILE");
  app.add_option("-o,--output", request.output,
                 "the folder to write to (default study-PROGRAM-DATE)")
      ->type_name("FOLDER");
  app.add_flag("--force", request.force, "write there even if it is not empty");
  app.add_flag("--quiet", request.quiet,
               "no progress on standard error; the answers are printed all the same");
}

}  // namespace rdmalloc::cli::study
