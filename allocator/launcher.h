// What an MPI launcher or a batch system tells a process of its job, by variables.
#pragma once

#include <cstdint>

namespace rdmalloc {

// How many processes of the job there are on this node: of Open MPI, PRRTE, MPICH's Hydra, MVAPICH,
// PALS or Slurm. 1 where nobody tells. Works before libc is initialised.
uint64_t ranks_on_node();

// What tells one process of a job from another, in words for file names and sentences: printable,
// without '/', '%' and blanks. Empty: nobody tells.
struct Place {
  char rank[24] = {};     // in MPI_COMM_WORLD, a number
  char job[64] = {};      // the batch system's number of the job, or the launcher's name of its own
  char machine[65] = {};  // as `uname -n` prints it

  bool has_rank() const { return rank[0] != '\0'; }
  bool has_job() const { return job[0] != '\0'; }
};

// By Open MPI's, PMIx's, MPICH's, MVAPICH's, PALS's, Slurm's, PBS's and LSF's variables. Works
// before libc is initialised.
Place find_place();

}  // namespace rdmalloc
