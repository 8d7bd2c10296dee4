// The domains of libfabric that the shim keeps covered: the regions of the window are registered
// with each, so that libfabric's cache finds every malloc'd buffer inside of one.
//
// An open domain of libfabric is an object with tables of operations; calls such as fi_mr_reg are
// inline functions over them. So there is nothing to interpose, and the object gets tables of ours
// instead: copies, in which what concerns memory regions is replaced. Layered providers (ofi_rxm
// over verbs) open a domain within a domain, and the inner one is where memory is registered: only
// that is covered, else each region would be registered by two ways.
//
// Any thread may call. There is no lock: each domain has its own record, and a program that closes
// a domain while it uses it gets what it deserves, as from libfabric.
#pragma once

#include <rdma/fi_domain.h>

namespace rdmalloc::shim {

// From now on, domains that are opened on this fabric are covered. A fabric that there is no memory
// for stays as it is.
void watch(fid_fabric* fabric);

}  // namespace rdmalloc::shim
