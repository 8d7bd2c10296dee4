// librdmalloc-verbs.so: libibverbs' registration calls, answered from the regions of the window.
//
// A buffer that lies in one region needs no memory region of its own: the caller gets a struct
// ibv_mr with its address and length, and the keys of the region's (verbs_answers.h). Everything
// else, and whatever cannot be answered for any reason, goes to libibverbs as it came; so do the
// calls of those whose ibv_dereg_mr is not ours (verbs_callers.h). Interposed by name alone; the
// symbol versions (verbs.map) leave callers of the older interface to libibverbs.
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/preload/verbs_answers.h"
#include "regcache/preload/verbs_real.h"
#include "regcache/preload/verbs_settings.h"

// The header's macros choose between the functions that are defined here.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace rdmalloc::shim {
namespace {

// After librdmalloc's constructors, because this library needs it: its fork handlers are registered
// before these, and so prepare a fork after them.
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
  const RealVerbs* real = real_verbs();
  return real != nullptr ? real->dereg_mr(mr) : ENOSYS;
}

RDM_API int ibv_dealloc_pd(ibv_pd* pd) { return deallocate(pd); }

RDM_API int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return get_event(context, event);
}

// These two end protection domains whose memory regions may be out: their memory is gone then, and
// a region acquired later must not be registered with them.
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
