// Lookups in a large region that is not registered yet: they register the part that holds the
// buffer and leave the rest to the registrar.
#pragma once

#include "regcache/domain/domain_parts.h"

namespace rdmalloc {

// True: `out` is the key of a part that covers the buffer. False: the lookup takes the whole
// region, and registers it or waits for it. Takes no lock, but waits for a lookup that is
// registering the same part (early_claim.h). The calling thread has entered the domain, and is not
// inside malloc.
bool look_up_early(DomainParts& domain, const Region& region, const void* address, size_t length,
                   rdm_mr* out);

}  // namespace rdmalloc
