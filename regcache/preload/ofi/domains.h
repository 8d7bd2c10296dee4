// The libfabric domains that the shim covers: the regions of the window are registered with each,
// so that libfabric's cache finds every malloc'd buffer inside one.
//
// An open libfabric domain is an object with tables of operations; calls such as fi_mr_reg are
// inline functions over them. So there is nothing to interpose. Instead the object gets our tables:
// copies in which the operations for memory regions are replaced. Layered providers (ofi_rxm over
// verbs) open a domain within a domain, and memory is registered with the inner one: only that is
// covered, because otherwise each region would be registered twice.
//
// Any thread may call. There is no lock: each domain has its own record. Closing a domain while it
// is in use is an error of the program, as with libfabric.
#pragma once

#include <rdma/fi_domain.h>

namespace rdmalloc::shim {

// Covers domains that are opened on this fabric from now on. If there is no memory for that, the
// fabric stays as it is.
void watch(fid_fabric* fabric);

}  // namespace rdmalloc::shim
