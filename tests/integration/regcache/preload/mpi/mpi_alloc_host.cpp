// A program without MPI that loads an MPI plug-in into a local scope, as Python does.
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
