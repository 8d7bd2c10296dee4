// A program without libibverbs that loads a plug-in with it (verbs_plugin.cpp).
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (plugin == nullptr) {
    fprintf(stderr, "no plug-in: %s\n", argc == 2 ? dlerror() : "name it");
    return 2;
  }
  const auto run = reinterpret_cast<int (*)()>(dlsym(plugin, "register_messages"));
  return run != nullptr ? run() : 2;
}
