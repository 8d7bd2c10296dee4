/* libfabric: the keys under which rdm_domain_open_ofi (rdmalloc.h) registers, and a monitor that
 * tells libfabric's registration cache that window memory does not change. C11 and C++. */
#ifndef RDMALLOC_OFI_H
#define RDMALLOC_OFI_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What rdm_domain_open_ofi needs of the domain. A domain does not show how it was opened, so memory
 * is registered with it once, as a trial.
 * - Threads: without RDM_DOMAIN_CALLERS_ONLY a thread of the library calls fi_mr_reg and fi_close.
 *   A domain does not show its threading model, so the caller must say: pass that flag for any
 *   model but FI_THREAD_SAFE (FI_THREAD_DOMAIN, FI_THREAD_COMPLETION and the others), and look up
 *   only where you might call fi_mr_reg. `rdmalloc run --ofi` sees the model and does this by
 *   itself.
 * - mr_mode: FI_MR_ENDPOINT is refused with RDM_UNSUPPORTED, because a region serves all endpoints.
 *   With FI_MR_RAW ask the handle for its key (fi_mr_raw_attr). Without FI_MR_VIRT_ADDR peers
 *   address by the offset from rdm_mr.base. The other modes make no difference.
 * - A provider that caches registrations (verbs) registers for all rights, whatever is requested.
 *   Then whoever gets a key of the heap may read and write its whole region.
 *
 * Domains without FI_MR_PROV_KEY: the caller of fi_mr_reg chooses keys, which must be unique in the
 * domain. The library's keys count up from RDM_OFI_FIRST_KEY and wrap around after 2^32, so do not
 * use these 2^32 keys. If the domain's keys have too few bits, they are the 2^16 keys from
 * RDM_OFI_FIRST_SHORT_KEY. A key that is already in use is skipped. */
#define RDM_OFI_FIRST_KEY UINT64_C(0x72646d0000000000)
#define RDM_OFI_FIRST_SHORT_KEY UINT64_C(0x72640000)

/* Libfabric keeps registrations in a cache and asks a memory monitor whether they are still valid.
 * This function imports a monitor of ours: registrations of the window's pinned regions stay valid
 * for ever and cost no monitoring; all other memory is watched by the monitor that rdm_monitor()
 * names, and what that cannot watch is registered for each use. The monitor only tells the cache
 * what to trust; it is a domain of rdm_domain_open_ofi that registers whole regions. Those serve
 * the cache also for freed memory whose pages moved away; the shim refuses it. In the statistics,
 * watched memory counts as one domain's foreign memory.
 *
 * Call it once in a process, before the first domain that caches. It needs a libfabric of 1.13 or
 * newer that is loaded already, and keeps it loaded. RDM_OK, also if our monitor was imported
 * before; RDM_UNSUPPORTED: no such libfabric; RDM_BUSY: another monitor was imported before or is
 * at work, or FI_MR_CACHE_MONITOR chooses one, and nothing was changed; RDM_AGAIN: another thread
 * is importing it right now; RDM_SYSTEM. rdm_last_error() has the sentence. A child of fork keeps
 * its parent's monitor, which trusts nothing there. Not inside malloc. */
RDM_API int rdm_ofi_import_monitor(void);

#ifdef __cplusplus
}
#endif

#endif
