// The C functions of include/rdmalloc/rdmalloc.h that concern memory.
#include <errno.h>
#include <string.h>

#include "allocator/engine/blocks.h"
#include "allocator/last_error.h"
#include "allocator/pages/heap.h"
#include "allocator/report/report.h"
#include "allocator/report/stats.h"
#include "include/rdmalloc/rdmalloc.h"

using rdmalloc::fail;
using rdmalloc::fail_often;
using rdmalloc::heap;
using rdmalloc::Region;

static void tell(const Region& region, rdm_region* out) {
  *out = rdm_region{};
  out->base = reinterpret_cast<void*>(region.base);
  out->length = region.length;
  out->page_size = rdmalloc::page_size_of(region);
  out->kind = static_cast<int>(region.kind);
  out->node = region.node;
  out->locked = region.locked ? 1 : 0;
  out->sealed = region.sealed ? 1 : 0;
  out->exposed = region.exposed ? 1 : 0;
}

extern "C" {

void* malloc(size_t size) noexcept;
void free(void* pointer) noexcept;
int posix_memalign(void** out, size_t alignment, size_t size) noexcept;

const char* rdm_strerror(int status) {
  switch (status) {
    case RDM_OK:
      return "success";
    case RDM_NOT_OWNED:
      return "not memory of the window";
    case RDM_NOT_REGISTERED:
      return "not registered";
    case RDM_OUT_OF_BUDGET:
      return "the budget for pinned memory is used up";
    case RDM_INVALID:
      return "invalid argument";
    case RDM_UNSUPPORTED:
      return "not supported here";
    case RDM_BUSY:
      return "in use";
    case RDM_AGAIN:
      return "nothing is available now";
    case RDM_PEER_DIED:
      return "another process is gone";
    case RDM_SYSTEM:
      return "a system call failed";
    default:
      return "unknown status";
  }
}

int rdm_owns(const void* address) {
  return heap.regions().find(address) != nullptr &&
                 !heap.marks().is_retired(reinterpret_cast<uintptr_t>(address), 1)
             ? 1
             : 0;
}

void* rdm_alloc(size_t size, size_t align, unsigned flags) {
  if ((flags & ~unsigned{RDM_EXPOSED}) != 0 || (align & (align - 1)) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  if ((flags & RDM_EXPOSED) != 0) {
    void* exposed = rdmalloc::engine::allocate_exposed(size, align);
    if (exposed == nullptr) errno = ENOMEM;
    return exposed;
  }
  if (align <= alignof(max_align_t)) return malloc(size);
  void* pointer = nullptr;
  const int error = posix_memalign(&pointer, align, size);
  if (error == 0) return pointer;
  errno = error;
  return nullptr;
}

void rdm_free(void* pointer) { free(pointer); }

int rdm_region_get(size_t index, rdm_region* out) {
  if (out == nullptr) return fail(RDM_INVALID, "there is no place for the region");
  rdmalloc::start_heap();
  Region region;
  if (!heap.regions().copy_nth(index, &region)) {
    return fail_often(RDM_INVALID, "there are fewer regions than that");
  }
  tell(region, out);
  return RDM_OK;
}

int rdm_region_of(const void* address, rdm_region* out) {
  if (out == nullptr) return fail(RDM_INVALID, "there is no place for the region");
  Region region;
  if (!heap.regions().copy(address, &region)) {
    return fail_often(RDM_NOT_OWNED, "the address lies in no region");
  }
  if (heap.marks().is_retired(reinterpret_cast<uintptr_t>(address), 1)) {
    return fail_often(RDM_NOT_OWNED,
                      "the address was retired: its page moved away or was unmapped");
  }
  tell(region, out);
  return RDM_OK;
}

int rdm_stats_get(rdm_stats* out, size_t sizeof_out) {
  if (out == nullptr || sizeof_out == 0) {
    return fail(RDM_INVALID, "there is no place for the statistics, or its size is 0");
  }
  const rdm_stats stats = rdmalloc::gather_stats();
  const size_t known = sizeof_out < sizeof stats ? sizeof_out : sizeof stats;
  memcpy(out, &stats, known);
  memset(reinterpret_cast<char*>(out) + known, 0, sizeof_out - known);
  return RDM_OK;
}

void rdm_phase(const char* name) {
  rdmalloc::start_heap();
  heap.look_at_limits();
  heap.books().begin_phase(name);
}

int rdm_stats_json(int fd) {
  // To the writer, -1 would mean standard error.
  if (fd < 0) errno = EBADF;
  if (fd >= 0 && rdmalloc::write_json(rdmalloc::gather_stats(), fd)) return RDM_OK;
  return fail(RDM_SYSTEM, "the statistics could not all be written: errno says why");
}

// The report is written after every other destructor and atexit handler of the program.
[[gnu::destructor(101)]] static void at_exit() { rdmalloc::report_at_exit(); }

}  // extern "C"
