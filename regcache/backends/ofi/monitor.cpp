// The memory monitor for libfabric's registration cache: rdm_ofi_import_monitor.
//
// Libfabric calls the operations while holding its lock, so they call nothing that could call
// libfabric. A child of fork owns no pinned memory: there the cache is told to trust nothing.
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>

#include "allocator/last_error.h"
#include "allocator/pages/heap.h"
#include "include/rdmalloc/ofi.h"
#include "regcache/backends/ofi/library.h"
#include "regcache/backends/ofi/watch.h"
#include "regcache/domain/ofi_known.h"

namespace rdmalloc {
namespace {

constexpr uint32_t kSince = FI_VERSION(1, 13);

// Whether the program itself unmapped or replaced a page of the range.
bool has_hole_of_program(uintptr_t address, size_t length) {
  const PageMarks& marks = heap.marks();
  if (marks.changes() == 0 || !marks.is_changed(address, length)) return false;
  const uintptr_t end = address + length;
  for (uintptr_t from = marks.first_retired(address, end); from < end;) {
    const uintptr_t to = marks.first_kept(from, end);
    if (marks.is_changed(from, to - from)) return true;
    from = marks.first_retired(to, end);
  }
  return false;
}

// True for memory whose pages never change while the process lives, unless the program itself
// unmaps or replaces them. Overflow and sparse regions drop their pages while they are free. A
// region stays what it is when pages are gathered from it: nobody has the addresses of those, and
// otherwise libfabric would register each buffer in the others by itself from then on.
bool is_for_ever(const void* address, size_t length) {
  const Region* region = heap.regions().find(address);
  const auto at = reinterpret_cast<uintptr_t>(address);
  return region != nullptr && region->kind == RegionKind::kPinned && region->locked &&
         length <= region->end() - at && !has_hole_of_program(at, length);
}

int start(fid_mem_monitor*) { return 0; }

void stop(fid_mem_monitor*) {}

constinit OfiWatch watch;

// If this refuses, libfabric still registers the memory, and gives it up when its user releases it.
// If it accepted and later reported the memory as invalid, the registration would hold its pages
// until the next request for them.
int subscribe(fid_mem_monitor*, const void* address, size_t length) {
  return is_for_ever(address, length) || watch.add(address, length) ? 0 : -FI_EOPNOTSUPP;
}

void unsubscribe(fid_mem_monitor*, const void* address, size_t length) {
  if (!is_for_ever(address, length)) watch.remove(address, length);
}

bool valid(fid_mem_monitor*, const void* address, size_t length) {
  return is_for_ever(address, length) || watch.is_valid(address, length);
}

constinit fi_ops_mem_monitor operations = {
    sizeof(fi_ops_mem_monitor), start, stop, subscribe, unsubscribe, valid};

// After the import libfabric uses it too, and fills in what is missing.
constinit fid_mem_monitor monitor = {
    {FI_CLASS_MEM_MONITOR, nullptr, nullptr}, &operations, nullptr};

enum class Import : uint8_t { kNone, kUnderWay, kDone };
constinit std::atomic<Import> import_state{Import::kNone};

int import_with(const OfiLibrary& library) {
  fid* cache = nullptr;
  int error = -library.open(kSince, "mr_cache", nullptr, 0, 0, &cache, nullptr);
  if (error != 0) {
    return fail(RDM_UNSUPPORTED, "this libfabric has no registration cache to import a monitor to");
  }
  error = -fi_import_fid(cache, &monitor.fid, 0);
  (void)fi_close(cache);
  if (error == 0) return RDM_OK;
  if (error == FI_EBUSY) {
    return fail(RDM_BUSY,
                "libfabric has an imported memory monitor already (Open MPI brings its own), or "
                "its own is at work: import ours before, before the first domain is opened");
  }
  snprintf(new_last_error(), kLongestError, "libfabric refused the memory monitor: error %d",
           error);
  return RDM_SYSTEM;
}

int try_import() {
  if (const char* chosen = getenv("FI_MR_CACHE_MONITOR"); chosen != nullptr) {
    snprintf(new_last_error(), kLongestError,
             "FI_MR_CACHE_MONITOR=%.64s chooses libfabric's memory monitor: unset it for ours",
             chosen);
    return RDM_BUSY;
  }
  const char* missing = nullptr;
  const OfiLibrary* const library = find_ofi_library(&missing);
  if (library == nullptr) return fail(RDM_UNSUPPORTED, missing);
  const int status = import_with(*library);
  // If it cannot be opened, other memory is registered for each use.
  if (status == RDM_OK) (void)watch.open();
  return status;
}

// No thread waits for the one that imports: that one calls the dynamic linker, and libfabric, which
// loads its providers.
int import_monitor() {
  Import state = Import::kNone;
  if (!import_state.compare_exchange_strong(state, Import::kUnderWay)) {
    return state == Import::kDone ? int{RDM_OK}
                                  : fail(RDM_AGAIN, "another thread is importing it just now");
  }
  const int status = try_import();
  import_state.store(status == RDM_OK ? Import::kDone : Import::kNone);
  return status;
}

}  // namespace
}  // namespace rdmalloc

extern "C" int rdm_shim_has_moved(const void* address, size_t length) {
  using rdmalloc::heap;
  const rdmalloc::Region* region = heap.regions().find(address);
  if (region == nullptr) return 0;
  const auto at = reinterpret_cast<uintptr_t>(address);
  const size_t inside = std::min(length, region->end() - at);
  return heap.marks().is_retired(at, inside) && !heap.marks().is_changed(at, inside) ? 1 : 0;
}

extern "C" int rdm_ofi_import_monitor() { return rdmalloc::import_monitor(); }
