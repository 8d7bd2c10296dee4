/* A program that uses MPI and knows nothing of rdmalloc: two ranks exchange messages of several
 * sizes. Each message is allocated, filled, sent and freed; the receiver checks every byte.
 *
 *   pingpong ROUNDS
 *
 * Exit status: 0 if every byte was right, otherwise 1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSmallest = 1 << 10, kLargest = 1 << 20 };

static unsigned char *make(int size) {
  unsigned char *bytes = malloc((size_t)size);
  if (bytes == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return bytes;
}

static void send_message(int to, int size, int fill) {
  unsigned char *bytes = make(size);
  memset(bytes, fill, (size_t)size);
  MPI_Send(bytes, size, MPI_BYTE, to, 0, MPI_COMM_WORLD);
  free(bytes);
}

static int wrong_in_message(int from, int size, int fill) {
  unsigned char *bytes = make(size);
  memset(bytes, 0, (size_t)size);
  MPI_Recv(bytes, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int wrong = 0;
  for (int i = 0; i < size && wrong == 0; ++i) wrong = bytes[i] != fill;
  free(bytes);
  return wrong;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 20;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int wrong = 0;
  int messages = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int size = kSmallest; size <= kLargest; size *= 4, ++messages) {
      const int ping = messages % 200 + 1;
      const int pong = ping + 1;
      if (rank == 0) send_message(1, size, ping);
      wrong += wrong_in_message(1 - rank, size, rank == 0 ? pong : ping);
      if (rank == 1) send_message(0, size, pong);
    }
  }
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d messages each way, %d wrong\n", messages, all);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
