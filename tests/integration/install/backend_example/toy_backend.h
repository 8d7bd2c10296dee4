/* A backend outside rdmalloc's tree, for a fictional device with a handful of entries of at most
 * 2 MiB each. It shows what a backend consists of; for testing, it fails when told to. Any
 * thread may call it. */
#ifndef TOY_BACKEND_H
#define TOY_BACKEND_H

#include <rdmalloc/backend.h>
#include <stdatomic.h>

enum { TOY_ENTRIES = 8, TOY_LONGEST = 2 << 20 };

typedef struct {
  atomic_int used;
  void* base;
  size_t length;
} toy_entry;

typedef struct {
  unsigned abilities; /* RDM_BACKEND_* */
  int fail_at;        /* the call of register_memory that fails, counted from 1; 0: none */
  atomic_int calls;
  atomic_int closed;
  toy_entry entries[TOY_ENTRIES];
} toy_device;

/* The operations; their context is a toy_device. */
extern const rdm_backend toy_backend;

int toy_entries_used(toy_device* device);

#endif
