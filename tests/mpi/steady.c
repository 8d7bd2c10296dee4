/* Mallocs, sends, receives and frees a message repeatedly, between two marks that strace can see
 * (munmap of nothing). The system calls between them are the cost of the loop.
 *
 *   steady           the marks enclose the loop, after a warm-up
 *   steady hooked    no loop: 0 if MPI changed munmap's code in this process, 1 if not
 *
 * Exit status: 0 every byte was right, 1 not, 3 gave up. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <sys/mman.h>

#include "tests/mpi/mpi_program.h"

enum { kWarmUp = 60, kRounds = 100 };

static int rank;

static int one_message(int size, int seed) {
  unsigned char *bytes = make(size);
  int wrong = 0;
  if (rank == 0) {
    fill(bytes, size, seed);
    MPI_Send(bytes, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
  } else {
    MPI_Recv(bytes, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong = is_wrong(bytes, size, seed);
  }
  free(bytes);
  return wrong;
}

static int messages(int rounds) {
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < kSizeCount; ++i) wrong += one_message(kSizes[i], round + i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return wrong;
}

enum { kLooked = 16 };

/* The first bytes of munmap: libc's own, and the one that callers find, which a preloaded
 * library may define. Hooks change one or the other. */
static void first_bytes(unsigned char bytes[2 * kLooked]) {
  void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  const void *own = libc != NULL ? dlsym(libc, "munmap") : NULL;
  const void *found = dlsym(RTLD_DEFAULT, "munmap");
  if (own == NULL || found == NULL) give_up("no libc.so.6 with munmap");
  memcpy(bytes, own, kLooked);
  memcpy(bytes + kLooked, found, kLooked);
}

int main(int argc, char **argv) {
  unsigned char before[2 * kLooked], after[2 * kLooked];
  first_bytes(before);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int wrong = messages(kWarmUp);
  first_bytes(after);
  if (argc > 1) {
    const int hooked = memcmp(before, after, sizeof before) != 0;
    MPI_Finalize();
    return !hooked;
  }
  munmap(NULL, 0);
  wrong += messages(kRounds);
  munmap(NULL, 0);
  wrong = total_of(wrong);
  MPI_Finalize();
  return wrong != 0;
}
