/* A C program without libstdc++ that loads a C++ plugin: plugin_host PLUGIN */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  if (dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv") != NULL) {
    puts("SKIPPED: libstdc++ is here already");
    return 77;
  }
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) {
    puts(dlerror());
    return 1;
  }
  int (*check)(void) = (int (*)(void))dlsym(plugin, "plugin_check");
  return check == NULL ? 1 : check();
}
