#include "allocator/report/report.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "allocator/message.h"
#include "allocator/os/announcement.h"
#include "allocator/os/confinement.h"
#include "allocator/os/environment.h"
#include "allocator/pages/heap.h"
#include "allocator/report/file_name.h"
#include "allocator/report/stats.h"
#include "allocator/report/watcher_name.h"
#include "allocator/report/whole_file.h"

namespace rdmalloc {
namespace {

// Read from the environment before main, so that all reports of the process have one name.
constinit Place place;
constinit char watcher[kLongestWatcherName + 1] = {};

bool is_wanted() {
  const char* const pattern = heap.options().path(OptionId::report);
  // A forked child must not overwrite its parent's report.
  return pattern[0] != '\0' && (!heap.forked() || names_process(pattern));
}

// The file that this process's report goes to.
struct ReportName {
  char path[WholeFile::kLongestPath] = {};
  bool fits = expand_file_name(heap.options().path(OptionId::report), place, path, sizeof path);
};

// False: nobody is watching this process.
bool announce() {
  heap.look_at_limits();
  heap.books().counters().share();
  const int page = heap.books().counters().descriptor();
  const ReportName name;
  return page >= 0 && name.fits && os::announce(os::text(watcher), os::text(name.path), page);
}

void announce_child() {
  if (is_wanted()) (void)announce();
}

void keep_watcher(void*, os::Text entry) {
  const os::Text name = entry.drop(sizeof kWatcherVariable);  // and its '='
  if (name.size > kLongestWatcherName) return;
  memcpy(watcher, name.data, name.size);
  watcher[name.size] = '\0';
}

void warn_of_nobody() {
  if (!heap.options().on(OptionId::warn)) return;
  Message message;
  message.add("rdmalloc: RDMALLOC_REPORT_EVERY does nothing for process ");
  message.add_number(os::process_number());
  message.add(": nobody watches it; start it by rdmalloc run --report-every").send();
}

// Returns 0, or the error that kept the file from being written in full.
int write_report(const rdm_stats& stats) {
  const ReportName name;
  if (!name.fits) return ENAMETOOLONG;
  errno = 0;
  WholeFile file(name.path, os::process_number());
  if (file.descriptor() >= 0 && write_json(stats, file.descriptor()) && file.keep()) return 0;
  return errno != 0 ? errno : EIO;
}

}  // namespace

void meet_watcher() {
  if (heap.options().path(OptionId::report)[0] == '\0') return;
  place = find_place();
  if (heap.options().choice(OptionId::report_every) == 0) return;
  os::for_each_environment(kWatcherVariable, keep_watcher, nullptr);
  if (watcher[0] == '\0' || !announce()) return warn_of_nobody();
  // Registered after the heap's own handler, which gives the child its own page.
  (void)pthread_atfork(nullptr, nullptr, announce_child);
}

void report_at_exit() {
  if (os::is_confined()) return;
  const Options& options = heap.options();
  const bool wants_file = is_wanted();
  if (!heap.booted() || (!wants_file && !options.on(OptionId::stats))) return;
  const rdm_stats stats = gather_stats();
  if (options.choice(OptionId::stats) == kStatsFull) {
    write_figures(stats);
  } else if (options.on(OptionId::stats)) {
    write_summary(stats);
  }
  if (!wants_file) return;
  const auto tell_watcher = [](ReportState state) {
    if (watcher[0] != '\0') heap.books().counters().note_report(state);
  };
  tell_watcher(ReportState::kBegun);
  const int error = write_report(stats);
  tell_watcher(error == 0 ? ReportState::kWritten : ReportState::kFailed);
  if (error == 0) return;
  Message()
      .add("rdmalloc: the report could not be written to ")
      .add(options.path(OptionId::report))
      .add(": ")
      .add(strerror(error))
      .send();
}

}  // namespace rdmalloc
