/* Each rank says hello; while all are running, each measures its share of the machine's memory, and
 * the first prints the sum. The measure is the kernel's proportional set size: a page that n
 * processes share counts as one n-th of a page in each.
 *
 * Exit status: 0, or 3 when it gave up. */
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include "tests/mpi/mpi_program.h"

/* In KiB. Avoids stdio, which would allocate a buffer. */
static long own_share(void) {
  static char text[4096];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY);
  const ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  const char *line = length > 0 ? strstr(text, "\nPss:") : NULL;
  if (line == NULL) give_up("no Pss in /proc/self/smaps_rollup");
  return strtol(line + 5, NULL, 10);
}

int main(int argc, char **argv) {
  int rank = 0, ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  printf("hello from %d of %d\n", rank, ranks);
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  const long share = own_share();
  MPI_Barrier(MPI_COMM_WORLD); /* nobody goes before all have looked */
  long sum = 0;
  MPI_Reduce(&share, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("shares of %d ranks: %ld KiB\n", ranks, sum);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
