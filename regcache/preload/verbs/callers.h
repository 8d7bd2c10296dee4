// Who called: may a memory region of ours be given to it?
//
// The caller's ibv_dereg_mr has to be ours as well. It is not if a program found libibverbs'
// functions by dlsym() on its handle: libibverbs' own ibv_reg_mr calls ibv_reg_mr_iova2 by name, so
// such a program's registrations come here, and its deregistrations do not. (libibverbs jumps
// there, so the call seems to be the program's own.) So we look at what the calling object imports.
#pragma once

#include <cstdint>

namespace rdmalloc::shim {

// A call of one of our functions, and where it returns to.
struct Call {
  const void* function;
  const void* caller;
};

// True when the object that called imports that function and ibv_dereg_mr, both from here. False
// for unknown callers, such as generated code. Thread-safe, not inside malloc; takes no lock and
// makes no system call.
//
// An object that both imports a function and has libibverbs' own from dlsym() is taken for one that
// uses what it imports.
bool deregisters_here(const Call& call);

// True when a transport of UCX called: a library by the name of libuct*. The same about threads.
bool is_of_ucx(const Call& call);

}  // namespace rdmalloc::shim
