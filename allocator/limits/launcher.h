// What an MPI launcher or a batch system tells a process about its job, in environment variables.
#pragma once

#include <cstdint>

namespace rdmalloc {

// How many processes of the job run on this machine, according to Open MPI, PRRTE, MPICH's Hydra,
// MVAPICH, PALS or Slurm; 1 if unknown. Works before libc is initialised.
uint64_t ranks_on_machine();

// What distinguishes the processes of a job, as text for file names and messages: printable,
// without '/', '%' and blanks. Empty: unknown.
struct Place {
  char rank[24] = {};     // in MPI_COMM_WORLD, a number
  char job[64] = {};      // the batch system's number of the job, or the launcher's own name for it
  char machine[65] = {};  // as `uname -n` prints it

  bool has_rank() const { return rank[0] != '\0'; }
  bool has_job() const { return job[0] != '\0'; }
};

// From the variables of Open MPI, PMIx, MPICH, MVAPICH, PALS, Slurm, PBS and LSF. Works before libc
// is initialised.
Place find_place();

}  // namespace rdmalloc
