#include "regcache/preload/mpi/settings.h"

#include <string.h>

#include <atomic>

#include "regcache/preload/switches.h"

namespace rdmalloc::mpi {
namespace {

using shim::read_switch;

constinit Settings current;
constinit std::atomic<bool> said_no_mpi{false};
constinit std::atomic<bool> said_not_exposed{false};

void say_once(std::atomic<bool>* said, const char* line) {
  if (!said->exchange(true)) shim::say(line, strlen(line));
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
