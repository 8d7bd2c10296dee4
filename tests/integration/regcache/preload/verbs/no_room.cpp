// Preloaded for controls: nothing is given back to make room for the program's own registrations.
#include "regcache/domain/held_keys.h"

int rdm_shim_make_room(rdm_domain* const*, size_t, size_t, size_t) { return 0; }
