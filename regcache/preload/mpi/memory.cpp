#include "regcache/preload/mpi/memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/mpi/hints.h"
#include "regcache/preload/mpi/settings.h"

namespace rdmalloc::mpi {

constinit Fast fast;
constinit Table theirs{&fast.reasons};

namespace {

enum class State { kUnknown, kStarting, kRunning, kEnding };
constinit std::atomic<State> state{State::kUnknown};

int never_copy(Handle, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return kSuccess;
}

// Whether the fast path is in use. Once switched off, it stays off.
constinit std::atomic<bool> is_fast{false};

// Called at the start of MPI_Finalize.
int on_finalize(Handle, int, void*, void*) {
  state.store(State::kEnding);
  fast.mask.store(0);
  if (is_fast.exchange(false)) fast.reasons.fetch_add(1);
  return kSuccess;
}

bool is_malloc_ours() {
  void* probe = malloc(1);
  const bool ours = rdm_owns(probe) != 0;
  free(probe);
  return ours;
}

// Learns of MPI_Finalize through an attribute of MPI_COMM_SELF, as the standard provides, instead
// of interposing it: that is where profiling tools live.
void start_fast_path(const RealMpi& real) {
  int key = 0;
  if (real.comm_create_keyval(&never_copy, &on_finalize, &key, nullptr) != kSuccess) return;
  const bool set = real.comm_set_attr(real.handles.comm_self(), key, nullptr) == kSuccess;
  // The key lives as long as its attribute, so MPI libraries that look for leaks find none of ours.
  (void)real.comm_free_keyval(&key);
  if (!set) return;  // MPI is asked on each call
  State expected = State::kStarting;
  if (!state.compare_exchange_strong(expected, State::kRunning)) return;
  const bool tool = real.tool.alloc_mem != nullptr || real.tool.free_mem != nullptr;
  if (tool || !is_malloc_ours()) return;
  is_fast.store(true);
  fast.reasons.fetch_sub(1);
  if (settings().exposed) return;
  fast.null_info.store(real.handles.null_info());
  fast.mask.store(real.handles.mask());
}

int pass_on(const RealMpi& real, Count size, Handle info, void* out) {
  const int error = real.alloc_mem(size, info, out);
  if (error != kSuccess || out == nullptr) return error;
  void* memory = *static_cast<void**>(out);
  if (memory == nullptr || theirs.put(reinterpret_cast<uintptr_t>(memory), nullptr)) return error;
  (void)real.free_mem(memory);
  *static_cast<void**>(out) = nullptr;
  return raise_no_memory(real);
}

}  // namespace

bool is_running(const RealMpi& real) {
  State now = state.load(std::memory_order_acquire);
  if (now == State::kRunning) return true;
  int initialized = 0;
  int finalized = 0;
  if (real.handles.kind == Kind::kOther || real.initialized(&initialized) != kSuccess ||
      real.finalized(&finalized) != kSuccess || initialized == 0 || finalized != 0) {
    return false;
  }
  if (now == State::kUnknown && state.compare_exchange_strong(now, State::kStarting)) {
    start_fast_path(real);
  }
  return true;
}

// Open MPI reports the error well when asked for an impossible size. MPICH (4.0) reports success
// with an address near zero when it finds no memory, so its error handler is called instead.
int raise_no_memory(const RealMpi& real) {
  if (real.handles.kind == Kind::kMpich) return raise_no_memory_on(real, real.handles.comm_world());
  void* memory = nullptr;
  return real.alloc_mem(PTRDIFF_MAX, real.handles.null_info(), &memory);
}

int raise_no_memory_on(const RealMpi& real, Handle communicator) {
  (void)real.comm_call_errhandler(communicator, real.handles.no_memory());
  return real.handles.no_memory();
}

void* take(size_t size, size_t align, bool exposed) {
  if (exposed) {
    if (void* memory = rdm_alloc(size, align, RDM_EXPOSED)) return memory;
  }
  void* memory = rdm_alloc(size, align, 0);
  if (exposed && memory != nullptr) say_not_exposed();
  return memory;
}

int refuse() {
  const RealMpi* real = real_mpi();
  return real != nullptr ? raise_no_memory(*real) : kNoMpi;
}

int allocate(Count size, Handle info, void* out) {
  const RealMpi* real = real_mpi();
  if (real == nullptr) {
    say_no_mpi();
    return kNoMpi;
  }
  // Calls that are invalid or unusual (zero bytes) get the MPI library's own answer.
  if (!is_running(*real) || size <= 0 || out == nullptr) return pass_on(*real, size, info, out);
  Hints hints;
  hints.exposed = settings().exposed;
  if (real->handles.of(info) != real->handles.null_info()) {
    if (!real->handles.is_info(info)) return pass_on(*real, size, info, out);
    hints = read_hints(*real, info);
  }
  if (hints.theirs) return pass_on(*real, size, info, out);
  void* memory = take(static_cast<size_t>(size), hints.align, hints.exposed);
  if (memory == nullptr) return raise_no_memory(*real);
  *static_cast<void**>(out) = memory;
  return kSuccess;
}

int release(void* base) {
  const RealMpi* real = real_mpi();
  if (real == nullptr) {
    say_no_mpi();
    return kNoMpi;
  }
  void* unused = nullptr;
  const bool is_theirs =
      !theirs.is_empty() && theirs.take(reinterpret_cast<uintptr_t>(base), &unused);
  if (base == nullptr || is_theirs || rdm_owns(base) == 0) return real->free_mem(base);
  // Before and after MPI runs, the library's own status for the call is returned.
  const int error = is_running(*real) ? kSuccess : real->free_mem(nullptr);
  rdm_free(base);
  return error;
}

}  // namespace rdmalloc::mpi
