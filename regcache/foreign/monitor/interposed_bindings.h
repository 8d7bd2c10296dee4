// The tables of bound symbols of all loaded objects: where a call through the dynamic linker ends.
// Some libraries rewrite these tables (UCX_MEM_MMAP_HOOK_MODE=reloc), and some objects are bound
// past us (RTLD_DEEPBIND).
#pragma once

namespace rdmalloc::interposed {

// Called with each place that is bound to a function of that name in another object. Calls that are
// not bound yet and an object's own functions are left out. Returning false ends the walk.
using VisitBound = bool (*)(void* context, const char* name, const void* bound_to);

// Not inside malloc: takes the dynamic linker's lock. Looks at each bound symbol.
void for_each_bound_call(VisitBound visit, void* context);

}  // namespace rdmalloc::interposed
