// A program that knows nothing of UCX and loads a plug-in that does, twice.
//
//   ucx_host PLUGIN [global]      global: into the global scope, else a local one
#include "tests/integration/probe.h"

int main(int argc, char** argv) {
  probe::Verdict verdict;
  const bool is_global = argc > 2 && strcmp(argv[2], "global") == 0;
  for (int i = 0; i < 2; ++i) {
    void* plugin = dlopen(argv[1], RTLD_NOW | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (plugin == nullptr) probe::skip(dlerror());
    const auto domains =
        reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_domains_with_a_context"));
    const int found = domains();
    if (found != 1) verdict.broken("%d domains while the plug-in has a context", found);
    if (probe::stats().domains != 0) verdict.broken("a domain is left after ucp_cleanup");
    dlclose(plugin);
    // The shim has found its functions for good.
    if (dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD) == nullptr) {
      verdict.broken("libucp went with the plug-in");
    }
  }
  return verdict.status();
}
