/* What the programs of this folder share: filling buffers with bytes that identify their sender,
 * and checking every byte. The programs use MPI and know nothing of rdmalloc. Include after
 * <mpi.h>. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From sizes sent eagerly to sizes that every transport sends by rendezvous. */
static const int kSizes[] = {1 << 10, 12 << 10, 100 << 10, 1 << 20};
enum { kSizeCount = sizeof kSizes / sizeof kSizes[0] };

static inline void give_up(const char* why) {
  fprintf(stderr, "%s\n", why);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static inline unsigned char* make(int size) {
  unsigned char* bytes = malloc((size_t)size);
  if (bytes == NULL) give_up("malloc failed");
  return bytes;
}

static inline unsigned char byte_at(int seed, int position) {
  return (unsigned char)(seed * 31 + position * 7 + (position >> 8));
}

static inline void fill(unsigned char* bytes, int size, int seed) {
  for (int i = 0; i < size; ++i) bytes[i] = byte_at(seed, i);
}

/* 1 if some byte differs from what fill() wrote with this seed, else 0. */
static inline int is_wrong(const unsigned char* bytes, int size, int seed) {
  for (int i = 0; i < size; ++i) {
    if (bytes[i] != byte_at(seed, i)) return 1;
  }
  return 0;
}

/* Sums the errors of all ranks; the first rank prints the sum. */
static inline int total_of(int wrong) {
  int all = 0;
  int rank = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("%d messages with a wrong byte\n", all);
    fflush(stdout);
  }
  return all;
}
