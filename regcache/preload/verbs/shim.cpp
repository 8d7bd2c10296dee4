// librdmalloc-verbs.so: answers libibverbs' registration calls from the regions of the window.
//
// A buffer that lies in one region needs no memory region of its own: the caller gets a struct
// ibv_mr with the buffer's address and length and the region's keys (answers.h). All other
// calls, and those that cannot be answered for any reason, go to libibverbs unchanged; so do calls
// from objects whose ibv_dereg_mr is not ours (callers.h). Interposed by name alone; the
// symbol versions (exports.map) leave callers of the older interface to libibverbs.
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/ucx_and_verbs.h"
#include "regcache/preload/verbs/answers.h"
#include "regcache/preload/verbs/real.h"
#include "regcache/preload/verbs/settings.h"

// The header's macros choose between the functions that are defined here.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace rdmalloc::shim {
namespace {

// Runs after librdmalloc's constructors, because this library depends on it. So librdmalloc's fork
// handlers are registered first, and therefore run after these when a fork is prepared.
[[gnu::constructor]] void start() {
  read_settings();
  (void)pthread_atfork([] { before_fork(); }, [] { after_fork_in_parent(); },
                       [] { after_fork_in_child(); });
}

[[gnu::destructor]] void finish() { print_stats(); }

}  // namespace
}  // namespace rdmalloc::shim

using namespace rdmalloc::shim;  // NOLINT(google-build-using-namespace): C functions follow

extern "C" {

void rdm_shim_answers_ucx(void) {}

RDM_API ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return register_memory(
      {reinterpret_cast<const void*>(&ibv_reg_mr), __builtin_return_address(0)},
      {pd, address, length, reinterpret_cast<uintptr_t>(address), static_cast<unsigned>(access)});
}

RDM_API ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                int access) {
  return register_memory(
      {reinterpret_cast<const void*>(&ibv_reg_mr_iova), __builtin_return_address(0)},
      {pd, address, length, iova, static_cast<unsigned>(access)});
}

RDM_API ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                 unsigned access) {
  return register_memory(
      {reinterpret_cast<const void*>(&ibv_reg_mr_iova2), __builtin_return_address(0)},
      {pd, address, length, iova, access});
}

RDM_API int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length,
                         int access) {
  if (AnsweredMr* record = find_answered(mr)) {
    return reregister(record, flags, {pd, address, length, 0, static_cast<unsigned>(access)});
  }
  return reregister_foreign(mr, flags, {pd, address, length, 0, static_cast<unsigned>(access)});
}

RDM_API int ibv_dereg_mr(ibv_mr* mr) {
  if (AnsweredMr* record = find_answered(mr)) return deregister(record);
  return deregister(mr);
}

RDM_API int ibv_dealloc_pd(ibv_pd* pd) { return deallocate(pd); }

RDM_API int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return get_event(context, event);
}

// These two functions end protection domains whose memory regions may still be in use. Their memory
// is gone then, and regions acquired later must not be registered with them.
RDM_API int ibv_close_device(ibv_context* context) {
  drop(context);
  const RealVerbs* real = real_verbs();
  return real != nullptr ? real->close_device(context) : ENOSYS;
}

RDM_API void ibv_unimport_pd(ibv_pd* pd) {
  drop(pd);
  const RealVerbs* real = real_verbs();
  if (real != nullptr && real->unimport_pd != nullptr) real->unimport_pd(pd);
}

}  // extern "C"
