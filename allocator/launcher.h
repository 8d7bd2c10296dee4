// What an MPI launcher or a batch system tells a process of its job, by variables.
#pragma once

#include <cstdint>

namespace rdmalloc {

// How many processes of the job there are on this node: of Open MPI, PRRTE, MPICH's Hydra, MVAPICH,
// PALS or Slurm. 1 where nobody tells. Works before libc is initialised.
uint64_t ranks_on_node();

}  // namespace rdmalloc
