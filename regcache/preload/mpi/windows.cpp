#include "regcache/preload/mpi/windows.h"

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/mpi/hints.h"
#include "regcache/preload/mpi/memory.h"
#include "regcache/preload/mpi/settings.h"
#include "regcache/preload/mpi/table.h"

namespace rdmalloc::mpi {
namespace {

constinit Table windows;  // maps the handle to our memory

int pass_on(const RealMpi& real, const WindowCall& call) {
  if (call.large && real.win_allocate_c != nullptr) {
    return real.win_allocate_c(call.size, call.displacement_unit, call.info, call.communicator,
                               call.base, call.window);
  }
  return real.win_allocate(call.size, static_cast<int>(call.displacement_unit), call.info,
                           call.communicator, call.base, call.window);
}

int create(const RealMpi& real, const WindowCall& call, void* memory) {
  if (call.large && real.win_create_c != nullptr) {
    return real.win_create_c(memory, call.size, call.displacement_unit, call.info,
                             call.communicator, call.window);
  }
  return real.win_create(memory, call.size, static_cast<int>(call.displacement_unit), call.info,
                         call.communicator, call.window);
}

// Creating a window is collective: if one rank has no memory, none may begin.
int agree(const RealMpi& real, const WindowCall& call, bool have_memory, bool* all_have) {
  const int mine = have_memory ? 1 : 0;
  int least = 0;
  const int error = real.allreduce(&mine, &least, 1, real.handles.int_type(), real.handles.min_op(),
                                   call.communicator);
  *all_have = error == kSuccess && least == 1;
  return error;
}

void* memory_for(const RealMpi& real, const WindowCall& call) {
  Hints hints;
  hints.exposed = settings().exposed;
  if (real.handles.of(call.info) != real.handles.null_info() && real.handles.is_info(call.info)) {
    hints = read_hints(real, call.info);
  }
  // A window of zero bytes has an address, too.
  const size_t size = call.size > 0 ? static_cast<size_t>(call.size) : 1;
  return take(size, hints.align, hints.exposed);
}

int allocate_ours(const RealMpi& real, const WindowCall& call) {
  void* memory = memory_for(real, call);
  bool all_have = false;
  int error = agree(real, call, memory != nullptr, &all_have);
  if (error == kSuccess && !all_have) error = raise_no_memory_on(real, call.communicator);
  if (all_have) error = create(real, call, memory);
  if (error != kSuccess) {
    rdm_free(memory);
    return error;
  }
  // Without a record the memory is never freed, which is better than a window without memory.
  (void)!windows.put(real.handles.at(call.window), memory);
  *static_cast<void**>(call.base) = memory;
  return kSuccess;
}

}  // namespace

int allocate_window(const WindowCall& call) {
  const RealMpi* real = real_mpi();
  if (real == nullptr) return kNoMpi;
  const bool odd = call.size < 0 || call.base == nullptr || call.window == nullptr;
  if (!settings().win_allocate || odd || !is_running(*real)) return pass_on(*real, call);
  int ranks = 0;
  if (const int error = real->comm_size(call.communicator, &ranks); error != kSuccess) return error;
  // Open MPI (4.1) has no one-rank window over given memory; it calls malloc itself.
  if (ranks == 1 && real->handles.kind == Kind::kOpenMpi) return pass_on(*real, call);
  return allocate_ours(*real, call);
}

int free_window(void* window) {
  const RealMpi* real = real_mpi();
  if (real == nullptr) return kNoMpi;
  void* memory = nullptr;
  // Removed first: once the window is freed, another thread may get the same handle.
  const Handle handle = window != nullptr && !windows.is_empty() ? real->handles.at(window) : 0;
  const bool ours = handle != 0 && windows.take(handle, &memory);
  const int error = real->win_free(window);
  if (!ours) return error;
  if (error == kSuccess) {
    rdm_free(memory);
  } else {
    (void)!windows.put(handle, memory);
  }
  return error;
}

}  // namespace rdmalloc::mpi
