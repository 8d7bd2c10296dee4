/* libfabric: what rdm_domain_open_ofi (rdmalloc.h) registers under which keys, and its registration
 * cache, told that window memory stays what it is. C11 and C++. */
#ifndef RDMALLOC_OFI_H
#define RDMALLOC_OFI_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What rdm_domain_open_ofi asks of the domain, which does not show how it was opened: so memory is
 * registered with it once, as a trial.
 * - Threads: without RDM_DOMAIN_CALLERS_ONLY a thread of ours calls fi_mr_reg and fi_close. A domain
 *   does not show its threading model, so it is yours to say: pass that flag for any but
 *   FI_THREAD_SAFE (FI_THREAD_DOMAIN, FI_THREAD_COMPLETION and the others), and look up only where you
 *   might call fi_mr_reg. `rdmalloc run --ofi` sees the model and does so by itself.
 * - mr_mode: FI_MR_ENDPOINT is refused, RDM_UNSUPPORTED: a region serves all endpoints. With
 *   FI_MR_RAW ask the handle for its key (fi_mr_raw_attr). Without FI_MR_VIRT_ADDR peers address by
 *   the offset from rdm_mr.base. The others make no difference.
 * - A provider that caches registrations (verbs) registers for all rights, whatever it is asked:
 *   then who gets a key of the heap may read and write all of a region.
 *
 * Domains without FI_MR_PROV_KEY: the caller of fi_mr_reg chooses keys, which must be unique in the
 * domain. Ours count up from here, around after 2^32 of them; so keep away from these 2^32 keys.
 * Where the domain's keys have too few bits for that, from RDM_OFI_FIRST_SHORT_KEY, 2^16 of them. A
 * key that is in use already is stepped over. */
#define RDM_OFI_FIRST_KEY UINT64_C(0x72646d0000000000)
#define RDM_OFI_FIRST_SHORT_KEY UINT64_C(0x72640000)

/* Libfabric keeps registrations in a cache and asks a memory monitor whether they still hold. This
 * makes it ask us: what it registered of the window's pinned regions holds for ever, and costs no
 * monitoring; all other memory is watched by the monitor that rdm_monitor() names, and what that
 * cannot watch is registered for each use. The monitor makes the cache trust, not cover: a domain
 * of rdm_domain_open_ofi covers whole regions. In the statistics, what is watched counts as one
 * domain's foreign memory.
 *
 * Once in a process, before its first domain that caches; needs a libfabric of 1.13 or newer that
 * is loaded already, and keeps it loaded. RDM_OK, also when it is ours already; RDM_UNSUPPORTED: no
 * such libfabric; RDM_BUSY: somebody else's monitor was imported before or is at work, or
 * FI_MR_CACHE_MONITOR chooses one, and nothing was changed; RDM_AGAIN: another thread is importing
 * it just now; RDM_SYSTEM. rdm_last_error() has the sentence. A child of fork keeps its parent's, which trusts nothing there. Not inside malloc. */
RDM_API int rdm_ofi_import_monitor(void);

#ifdef __cplusplus
}
#endif

#endif
