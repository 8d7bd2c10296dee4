// A program that knows nothing of UCX and loads a plug-in that does, out of the global scope,
// twice.
//
//   ucx_host PLUGIN
#include "tests/integration/probe.h"

int main(int, char** argv) {
  probe::Verdict verdict;
  for (int i = 0; i < 2; ++i) {
    void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) probe::skip(dlerror());
    const auto domains =
        reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_domains_with_a_context"));
    const int found = domains();
    if (found != 1) verdict.broken("%d domains while the plug-in has a context", found);
    if (probe::stats().domains != 0) verdict.broken("a domain is left after ucp_cleanup");
    dlclose(plugin);
  }
  return verdict.status();
}
