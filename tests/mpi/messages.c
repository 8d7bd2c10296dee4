/* Ranks that send each other malloc'd messages and free them as soon as MPI allows.
 *
 *   messages isend        MPI_Isend and MPI_Irecv of every size at once, freed after the wait
 *   messages persistent   persistent requests, restarted many times; new buffers each time
 *   messages onesided     windows over malloc'd memory, accessed with MPI_Put and MPI_Get; freed
 *                         after MPI_Win_free
 *   messages threads      MPI_THREAD_MULTIPLE: several threads malloc, send, receive and free
 *
 * Exit status: 0 every byte was right, 1 not, 2 unknown argument, 3 gave up, 77 skipped. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/mpi/mpi_program.h"

enum { kRounds = 20, kThreads = 4 };

static int rank, ranks;

static int right_of(void) { return (rank + 1) % ranks; }
static int left_of(void) { return (rank + ranks - 1) % ranks; }

static int isend(void) {
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    unsigned char *in[kSizeCount], *out[kSizeCount];
    MPI_Request requests[2 * kSizeCount];
    for (int i = 0; i < kSizeCount; ++i) {
      in[i] = make(kSizes[i]);
      out[i] = make(kSizes[i]);
      memset(in[i], 0, (size_t)kSizes[i]);
      fill(out[i], kSizes[i], rank + round + i);
      MPI_Irecv(in[i], kSizes[i], MPI_BYTE, left_of(), i, MPI_COMM_WORLD, &requests[2 * i]);
      MPI_Isend(out[i], kSizes[i], MPI_BYTE, right_of(), i, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * kSizeCount, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kSizeCount; ++i) {
      wrong += is_wrong(in[i], kSizes[i], left_of() + round + i);
      free(in[i]);
      free(out[i]);
    }
  }
  return wrong;
}

static int persistent(void) {
  int wrong = 0;
  for (int i = 0; i < kSizeCount; ++i) {
    unsigned char *in = make(kSizes[i]);
    unsigned char *out = make(kSizes[i]);
    MPI_Request requests[2];
    MPI_Recv_init(in, kSizes[i], MPI_BYTE, left_of(), i, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, kSizes[i], MPI_BYTE, right_of(), i, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < kRounds; ++round) {
      memset(in, 0, (size_t)kSizes[i]);
      fill(out, kSizes[i], rank + round);
      MPI_Startall(2, requests);
      /* Other allocations meanwhile must not affect the requests. */
      free(make(kSizes[i]));
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      wrong += is_wrong(in, kSizes[i], left_of() + round);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(in);
    free(out);
  }
  return wrong;
}

static int onesided(void) {
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int size = kSizes[round % kSizeCount];
    unsigned char *exposed = make(2 * size); /* what others get, then what they put */
    unsigned char *mine = make(2 * size);
    MPI_Win window;
    fill(exposed, size, rank + round);
    fill(mine, size, rank - round);
    MPI_Win_create(exposed, 2 * size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(mine, size, MPI_BYTE, right_of(), size, size, MPI_BYTE, window);
    MPI_Get(mine + size, size, MPI_BYTE, right_of(), 0, size, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    wrong += is_wrong(exposed + size, size, left_of() - round);
    wrong += is_wrong(mine + size, size, right_of() + round);
    MPI_Win_free(&window);
    free(exposed);
    free(mine);
  }
  return wrong;
}

/* Where a thread leaves its last message for another thread to free. */
static _Atomic(void *) left_over[kThreads];

static void *exchange(void *argument) {
  const int self = *(int *)argument;
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int size = kSizes[(round + self) % kSizeCount];
    unsigned char *out = make(size);
    unsigned char *in = make(size);
    MPI_Request request;
    fill(out, size, rank + self + round);
    MPI_Irecv(in, size, MPI_BYTE, left_of(), self, MPI_COMM_WORLD, &request);
    MPI_Send(out, size, MPI_BYTE, right_of(), self, MPI_COMM_WORLD);
    free(out);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    wrong += is_wrong(in, size, left_of() + self + round);
    free(atomic_exchange(&left_over[(self + round) % kThreads], in));
  }
  *(int *)argument = wrong;
  return NULL;
}

static int threads(void) {
  pthread_t thread[kThreads];
  int argument[kThreads];
  int wrong = 0;
  for (int i = 0; i < kThreads; ++i) {
    argument[i] = i;
    if (pthread_create(&thread[i], NULL, exchange, &argument[i]) != 0) give_up("no thread");
  }
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(thread[i], NULL);
    wrong += argument[i];
  }
  for (int i = 0; i < kThreads; ++i) free(left_over[i]);
  return wrong;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(void);
    int level;
  } ways[] = {{"isend", isend, MPI_THREAD_SINGLE},
              {"persistent", persistent, MPI_THREAD_SINGLE},
              {"onesided", onesided, MPI_THREAD_SINGLE},
              {"threads", threads, MPI_THREAD_MULTIPLE}};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
    if (argc != 2 || strcmp(argv[1], ways[i].name) != 0) continue;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, ways[i].level, &provided);
    if (provided < ways[i].level) {
      puts("SKIPPED: this MPI has no MPI_THREAD_MULTIPLE");
      MPI_Finalize();
      return 77;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int wrong = total_of(ways[i].run());
    MPI_Finalize();
    return wrong != 0;
  }
  fprintf(stderr, "usage: messages isend|persistent|onesided|threads\n");
  return 2;
}
