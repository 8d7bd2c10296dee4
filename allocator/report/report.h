// The report of a process (RDMALLOC_REPORT). The process writes it when it exits. It also announces
// it to a watcher, which `rdmalloc run --report-every` starts beside the program, so that a killed
// process leaves a report, too.
#pragma once

namespace rdmalloc {

// Gives the watcher that the environment names, if any, the counter page and the report's name.
// Once, before main.
void meet_watcher();

// Writes the report and the text that the options ask for. At exit.
void report_at_exit();

}  // namespace rdmalloc
