#include "regcache/preload/mpi_settings.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

namespace rdmalloc::mpi {
namespace {

constinit Settings current;
constinit std::atomic<bool> said{false};

// librdmalloc names what is malformed; here it keeps the default.
void read_switch(const char* variable, bool* value) {
  const char* text = getenv(variable);
  if (text == nullptr) return;
  for (const char* word : {"on", "1", "yes", "true"}) {
    if (strcmp(text, word) == 0) *value = true;
  }
  for (const char* word : {"off", "0", "no", "false"}) {
    if (strcmp(text, word) == 0) *value = false;
  }
}

}  // namespace

void read_settings() {
  read_switch("RDMALLOC_MPI_EXPOSED", &current.exposed);
  read_switch("RDMALLOC_MPI_WIN_ALLOCATE", &current.win_allocate);
}

const Settings& settings() { return current; }

void say_no_mpi() {
  static constexpr char kLine[] =
      "rdmalloc: a function of MPI was called, and the process has loaded no MPI library; link the "
      "program with one\n";
  if (said.exchange(true)) return;
  (void)!write(STDERR_FILENO, kLine, sizeof kLine - 1);
}

}  // namespace rdmalloc::mpi
