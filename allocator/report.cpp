#include "allocator/report.h"

#include <pthread.h>
#include <string.h>

#include "allocator/file_name.h"
#include "allocator/message.h"
#include "allocator/os/announcement.h"
#include "allocator/os/confinement.h"
#include "allocator/os/environment.h"
#include "allocator/pages/heap.h"
#include "allocator/stats.h"
#include "allocator/watcher_name.h"
#include "allocator/whole_file.h"

namespace rdmalloc {
namespace {

// As the environment said before main, so that all of the process's reports have one name.
constinit Place place;
constinit char watcher[kLongestWatcherName + 1] = {};

bool is_wanted() {
  const char* const pattern = heap.options().path(OptionId::report);
  // A forked child writes no report over its parent's.
  return pattern[0] != '\0' && (!heap.forked() || names_process(pattern));
}

// Where this process's report goes.
struct ReportName {
  char path[WholeFile::kLongestPath] = {};
  bool fits = expand_file_name(heap.options().path(OptionId::report), place, path, sizeof path);
};

// False: nobody is there who would watch this process.
bool announce() {
  const int page = heap.share_counters();
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

bool write_report(const rdm_stats& stats) {
  const ReportName name;
  if (!name.fits) return false;
  WholeFile file(name.path, os::process_number());
  return file.descriptor() >= 0 && write_json(stats, file.descriptor()) && file.keep();
}

}  // namespace

void meet_watcher() {
  if (heap.options().path(OptionId::report)[0] == '\0') return;
  place = find_place();
  if (heap.options().choice(OptionId::report_every) == 0) return;
  os::for_each_environment(kWatcherVariable, keep_watcher, nullptr);
  if (watcher[0] == '\0' || !announce()) return warn_of_nobody();
  // After the heap's own handler, which gives the child a page of its own.
  (void)pthread_atfork(nullptr, nullptr, announce_child);
}

void report_at_exit() {
  if (os::is_confined()) return;
  const Options& options = heap.options();
  const bool wants_file = is_wanted();
  if (!heap.booted() || (!wants_file && !options.on(OptionId::stats))) return;
  const rdm_stats stats = gather_stats();
  if (options.on(OptionId::stats)) write_text(stats);
  if (!wants_file) return;
  const auto tell_watcher = [](ReportState state) {
    if (watcher[0] != '\0') heap.note_report(state);
  };
  tell_watcher(ReportState::kBegun);
  const bool is_written = write_report(stats);
  tell_watcher(is_written ? ReportState::kWritten : ReportState::kFailed);
  if (is_written) return;
  const char* const path = options.path(OptionId::report);
  Message().add("rdmalloc: the report could not be written to ").add(path).send();
}

}  // namespace rdmalloc
