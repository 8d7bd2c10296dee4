/* Ranks that end, fork or free in ways that MPI libraries dislike.
 *
 *   lives fork      forks between messages: the child allocates, checks what it inherited, and
 *                   exits; the parent goes on sending its buffers. Then calls system().
 *   lives early     calls MPI_Finalize with buffers that were sent, and never frees them
 *   lives late      frees them after MPI_Finalize, and goes on allocating
 *   lives abort     one rank calls MPI_Abort while the others wait for its message
 *
 * Exit status: 0 every byte was right, 1 not, 2 unknown argument, 3 gave up; abort: kAborted. */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/mpi/mpi_program.h"

enum { kRounds = 5, kAborted = 7 };

static int rank, ranks;

/* Sends a message of each size around the ring, from and to the given buffers. */
static int pass_round(unsigned char *out[kSizeCount], unsigned char *in[kSizeCount], int seed) {
  const int from = (rank + ranks - 1) % ranks;
  int wrong = 0;
  for (int i = 0; i < kSizeCount; ++i) {
    memset(in[i], 0, (size_t)kSizes[i]);
    fill(out[i], kSizes[i], rank + seed + i);
    MPI_Sendrecv(out[i], kSizes[i], MPI_BYTE, (rank + 1) % ranks, i, in[i], kSizes[i], MPI_BYTE,
                 from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong += is_wrong(in[i], kSizes[i], from + seed + i);
  }
  return wrong;
}

static void make_all(unsigned char *buffers[kSizeCount]) {
  for (int i = 0; i < kSizeCount; ++i) buffers[i] = make(kSizes[i]);
}

static void free_all(unsigned char *buffers[kSizeCount]) {
  for (int i = 0; i < kSizeCount; ++i) free(buffers[i]);
}

/* 0 if a child sees what it inherited and can allocate and free. */
static int child_fails(unsigned char *inherited[kSizeCount], int seed) {
  const pid_t child = fork();
  if (child == 0) {
    int wrong = 0;
    for (int i = 0; i < kSizeCount; ++i) {
      wrong += is_wrong(inherited[i], kSizes[i], rank + seed + i);
      unsigned char *own = make(kSizes[i]);
      fill(own, kSizes[i], seed);
      fill(inherited[i], kSizes[i], -1); /* the parent must not see this */
      wrong += is_wrong(own, kSizes[i], seed);
      free(own);
    }
    _exit(wrong);
  }
  int status = 1;
  return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

static int forks(unsigned char *out[kSizeCount], unsigned char *in[kSizeCount]) {
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    wrong += pass_round(out, in, round);
    wrong += child_fails(out, round);
    wrong += system("true") != 0;
    for (int i = 0; i < kSizeCount; ++i) wrong += is_wrong(out[i], kSizes[i], rank + round + i);
  }
  return wrong;
}

/* 1 if memory that was allocated, sent and kept is damaged after MPI_Finalize. */
static int late(unsigned char *out[kSizeCount], unsigned char *in[kSizeCount], int seed) {
  int wrong = 0;
  for (int i = 0; i < kSizeCount; ++i) wrong += is_wrong(out[i], kSizes[i], rank + seed + i);
  free_all(out);
  free_all(in);
  for (int round = 0; round < 100 * kRounds; ++round) {
    const int size = kSizes[round % kSizeCount];
    unsigned char *bytes = malloc((size_t)size);
    if (bytes == NULL) return 1;
    bytes[0] = bytes[size - 1] = (unsigned char)round;
    free(bytes);
  }
  return wrong != 0;
}

int main(int argc, char **argv) {
  const char *way = argc == 2 ? argv[1] : "";
  unsigned char *out[kSizeCount], *in[kSizeCount];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  make_all(out);
  make_all(in);
  int wrong = 0;
  if (strcmp(way, "fork") == 0) wrong += forks(out, in);
  wrong += pass_round(out, in, kRounds);
  if (strcmp(way, "abort") == 0) {
    if (rank == ranks - 1) MPI_Abort(MPI_COMM_WORLD, kAborted);
    MPI_Recv(in[0], kSizes[0], MPI_BYTE, ranks - 1, kSizeCount, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  wrong = total_of(wrong);
  MPI_Finalize();
  if (strcmp(way, "late") == 0) return wrong + late(out, in, kRounds) != 0;
  if (strcmp(way, "fork") == 0 || strcmp(way, "early") == 0) return wrong != 0;
  fprintf(stderr, "usage: lives fork|early|late|abort\n");
  return 2;
}
