// Brings libucp with it, as the components of MPI libraries do.
#include "tests/integration/regcache/preload/ucx/ucx_peer.h"

// How many domains the library has while a context exists.
extern "C" int plugin_domains_with_a_context() {
  ucp_context_h context = probe::make_context(false);
  const int domains = static_cast<int>(probe::stats().domains);
  ucp_cleanup(context);
  return domains;
}
