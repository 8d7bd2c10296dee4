/* One rank sends another messages from fresh buffers: malloc, fill, send, free; the other mallocs,
 * receives, looks and frees. Eight are in flight, of sizes that are equally likely in each doubling.
 *
 *   loop LEAST_KIB MOST_KIB MESSAGES
 *
 * After a warm-up of as many, the first rank prints the wall time from the first message to the last,
 * which part of it the rank that had least of it was on a processor (ranks poll: what is missing, other
 * programs had), and which malloc it was: whether the library owns the blocks, and how many of them were
 * mappings of their own in glibc's books. Exit status: 0 every message was right, 1 not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kInFlight = 8 };

typedef struct {
  unsigned char *bytes;
  int size, number;
  MPI_Request request;
} Message;

static int rank;
static uint64_t state;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static int next_size(int least, int most) {
  int doublings = 0;
  while (least << (doublings + 1) <= most) ++doublings;
  const int low = least << (next_random() % (uint64_t)doublings);
  return low + (int)(next_random() % (uint64_t)low);
}

static void begin(Message *message, int number, int size) {
  message->bytes = malloc((size_t)size);
  if (message->bytes == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  message->size = size;
  message->number = number;
  if (rank == 0) {
    memset(message->bytes, number, (size_t)size);
    MPI_Isend(message->bytes, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &message->request);
  } else {
    MPI_Irecv(message->bytes, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &message->request);
  }
}

/* 1 where the message is wrong. */
static int end(Message *message) {
  if (message->bytes == NULL) return 0;
  MPI_Wait(&message->request, MPI_STATUS_IGNORE);
  const unsigned char expected = (unsigned char)message->number;
  const int wrong =
      message->bytes[0] != expected || message->bytes[message->size - 1] != expected;
  free(message->bytes);
  message->bytes = NULL;
  return wrong;
}

static int pass(int messages, int least, int most, size_t *mappings) {
  Message flying[kInFlight] = {{0}};
  int wrong = 0;
  state = 88172645463325252U; /* both ranks draw the same sizes */
  for (int i = 0; i < messages; ++i) {
    Message *message = &flying[i % kInFlight];
    wrong += end(message);
    begin(message, i, next_size(least, most));
  }
  *mappings = mallinfo2().hblks;
  for (int i = 0; i < kInFlight; ++i) wrong += end(&flying[i]);
  return wrong;
}

static double seconds_of(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int owns(void) {
  int (*library_owns)(const void *) = (int (*)(const void *))dlsym(RTLD_DEFAULT, "rdm_owns");
  void *block = malloc(100000);
  const int owned = library_owns != NULL && library_owns(block);
  free(block);
  return owned;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const int least = atoi(argv[1]) << 10, most = atoi(argv[2]) << 10, messages = atoi(argv[3]);
  size_t mappings = 0;
  int wrong = pass(messages, least, most, &mappings);
  MPI_Barrier(MPI_COMM_WORLD);
  const double from = seconds_of(CLOCK_MONOTONIC);
  const double processor_from = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  wrong += pass(messages, least, most, &mappings);
  MPI_Barrier(MPI_COMM_WORLD);
  const double processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor_from;
  const double wall = seconds_of(CLOCK_MONOTONIC) - from;
  const double part = processor / wall;
  double least_part = 0;
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&part, &least_part, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("wall_ns %.0f\non_processor %.3f\nowned %d\nmappings %zu\n", wall * 1e9, least_part,
           owns(), mappings);
    fflush(stdout);
  }
  MPI_Finalize();
  return all != 0;
}
