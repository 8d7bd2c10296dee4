// A C++ plugin of a C program, which brings in libstdc++ late and privately.
#include "tests/integration/bad_alloc.h"

extern "C" __attribute__((visibility("default"))) int plugin_check() {
  return probe::check_bad_alloc();
}
