#include "allocator/pages/page_store.h"

#include "allocator/message.h"
#include "allocator/os/limits.h"
#include "allocator/os/thread.h"

namespace rdmalloc {
namespace {

// The default window: a quarter of what the kernel has for a process, because addresses are used
// only once.
constexpr uint64_t kWindow = uint64_t{1} << 45;

// Of the records that the tables' users take later: for the first of each.
constexpr size_t kRecords = size_t{1} << 20;

}  // namespace

void PageStore::boot() {
  options.load();
  os::place_threads(options.processors());
  if (options.on(OptionId::warn) && options.warning()[0] != '\0') {
    Message().add(options.warning()).add("; see rdmalloc run --help").send();
  }
  budget.boot(options);
  size_t wanted = budget.resolve(options.amount(OptionId::window));
  if (wanted == 0) wanted = kWindow;
  const Status reserved = window.reserve(wanted < Window::kSmallest ? Window::kSmallest : wanted);
  if (ok(reserved)) {
    os::map_tables_ahead(regions.table_bytes() + CpuCaches::table_bytes(window.size()) + kRecords);
  }
  if (ok(reserved) && (!ok(regions.boot()) || !ok(marks.boot()) || !ok(blocks.boot()) ||
                       !ok(front_table.boot()) || !ok(caches.boot(window.size())))) {
    window.abandon();
  }
  if (window.size() == 0 && options.on(OptionId::warn)) {
    Message message;
    message.add("rdmalloc: no address space for a window (RLIMIT_AS leaves ");
    message.add_size(os::address_space_left()).add("): memory is neither in it nor pinned").send();
  }
  placement.boot(options.choice(OptionId::numa));
  depots.boot(placement.is_on());
  books.boot(budget.resolve(options.amount(OptionId::counters_from)));
  books.counters().note_window(window.base(), window.size());
}

}  // namespace rdmalloc
