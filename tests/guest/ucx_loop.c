/* A program that uses MPI and knows nothing of rdmalloc: two ranks exchange messages of several
 * sizes, each allocated, filled, sent and freed. The receiver checks every byte. After a warm-up
 * the program reads the kernel's count of the memory regions that the device's driver registers,
 * and the clock. It frees its last messages after MPI_Finalize.
 *
 *   ucx_loop ROUNDS MOST [fork]   under tests/guest/counted, which sets up the kernel's counter
 *
 * With `fork` each rank forks children along the way, which check their heap.
 *
 * Exit status: 0 if every byte was right and at most MOST registrations were counted; 1 if not;
 * 77 if the kernel does not count. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSmallest = 96 << 10, kLargest = 1 << 20, kWarmUp = 12, kSizes = 7 };

struct record {
  unsigned char* bytes;
  int size;
};

static int wrong;

/* Reads the counting probe; -1 if there is none. */
static long registrations(void) {
  FILE* profile = fopen("/sys/kernel/tracing/kprobe_profile", "r");
  if (profile == NULL) return -1;
  char name[128];
  long hits = -1;
  long found = -1;
  while (fscanf(profile, "%127s %ld %*d", name, &hits) == 2) {
    if (strcmp(name, "guest_registrations") == 0) found = hits;
  }
  fclose(profile);
  return found;
}

static unsigned char* make(int size) {
  unsigned char* bytes = malloc((size_t)size);
  if (bytes == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return bytes;
}

static struct record exchange(int rank, int size, int fill) {
  const int peer = 1 - rank;
  struct record sent = {make(size), size};
  struct record received = {make(size), size};
  memset(sent.bytes, fill + rank, (size_t)size);
  memset(received.bytes, 0, (size_t)size);
  MPI_Request request;
  MPI_Irecv(received.bytes, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
  MPI_Send(sent.bytes, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < size; ++i) wrong += received.bytes[i] != fill + peer;
  free(sent.bytes);
  return received;
}

static void go_round(int rank, int round, struct record* last) {
  for (int i = 0; i < kSizes; ++i) {
    const int size = kSmallest + (kLargest - kSmallest) / kSizes * i;
    free(last[i].bytes);
    last[i] = exchange(rank, size, (round * kSizes + i) % 200 + 1);
  }
}

/* Forks a child that reads and overwrites what its parent received. */
static void have_a_child(const struct record* last) {
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kSizes; ++i) {
      for (int j = 1; j < last[i].size; ++j) {
        if (last[i].bytes[j] != last[i].bytes[0]) _exit(1);
      }
      memset(last[i].bytes, 0, (size_t)last[i].size);
    }
    free(make(kLargest));
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  wrong += status != 0;
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 40;
  const long most = argc > 2 ? atol(argv[2]) : 0;
  const int forks = argc > 3 && strcmp(argv[3], "fork") == 0;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  struct record last[kSizes] = {{NULL, 0}};
  for (int round = 0; round < kWarmUp; ++round) go_round(rank, round, last);
  MPI_Barrier(MPI_COMM_WORLD);
  const long before = registrations();
  const double started = MPI_Wtime();
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 0; round < rounds; ++round) {
    go_round(rank, kWarmUp + round, last);
    if (forks && round % 3 == 1) have_a_child(last);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = MPI_Wtime() - started;
  const long counted = registrations() - before;
  MPI_Barrier(MPI_COMM_WORLD);
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%d messages each way, %d bytes or children wrong, %ld memory regions, %.0f us each\n",
           rounds * kSizes, all, counted, seconds * 1e6 / (rounds * kSizes));
    if (all == 0 && before < 0) printf("SKIPPED: the kernel does not count registrations\n");
    fflush(stdout);
  }
  MPI_Finalize();
  for (int i = 0; i < kSizes; ++i) free(last[i].bytes);
  if (all != 0) return 1;
  if (before < 0) return 77;
  return counted <= most ? 0 : 1;
}
