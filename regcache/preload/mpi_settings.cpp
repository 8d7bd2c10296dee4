#include "regcache/preload/mpi_settings.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

namespace rdmalloc::mpi {
namespace {

constinit Settings current;
constinit std::atomic<bool> said_no_mpi{false};
constinit std::atomic<bool> said_not_exposed{false};

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

void say_once(std::atomic<bool>* said, const char* line) {
  if (!said->exchange(true) && write(STDERR_FILENO, line, strlen(line)) < 0) return;
}

}  // namespace

void read_settings() {
  read_switch("RDMALLOC_MPI_EXPOSED", &current.exposed);
  read_switch("RDMALLOC_MPI_WIN_ALLOCATE", &current.win_allocate);
  read_switch("RDMALLOC_WARN", &current.warn);
}

const Settings& settings() { return current; }

void say_no_mpi() {
  say_once(
      &said_no_mpi,
      "rdmalloc: a function of MPI was called, and the process has loaded no MPI library; link "
      "the program with one\n");
}

void say_not_exposed() {
  if (!current.warn) return;
  say_once(
      &said_not_exposed,
      "rdmalloc: memory of MPI that was to be exposed is ordinary memory: no more may be pinned; "
      "rdmalloc doctor says why (RDMALLOC_WARN=off silences this)\n");
}

}  // namespace rdmalloc::mpi
