// A program that knows no MPI and loads a plug-in that does, for itself alone: as Python does.
//   mpi_alloc_host PLUGIN CASE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    puts(dlerror());
    return 2;
  }
  const auto run = reinterpret_cast<int (*)(const char*)>(dlsym(plugin, "plugin_main"));
  return run(argv[2]);
}
