/* The adapters in C: each is assigned, without a cast, to the function pointer type that its
 * library declares, and called through it. Open MPI's and UCX's types come from their own
 * headers, if installed; MPICH's and yaksa's are not shipped, so their types are copied here
 * from the public sources. Exit status 1 and a line: something is wrong. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Included before UCX's header: the status is then a signed char here, a compatible type in C. */
#include <rdmalloc/adapters.h>

#ifdef HAVE_UCX
#include <ucs/datastruct/mpool.h>
static ucs_status_t (*const ucs_alloc)(ucs_mpool_t *, size_t *, void **) = rdm_ucs_chunk_alloc;
static void (*const ucs_release)(ucs_mpool_t *, void *) = rdm_ucs_chunk_release;
#endif
#ifdef HAVE_OPENMPI
#include "opal_config.h"
#include "opal/mca/mpool/mpool.h"
#endif

typedef void *(*genq_malloc_fn)(uintptr_t);
typedef void (*genq_free_fn)(void *);
typedef void *(*yaksu_malloc_fn)(uintptr_t size, void *state);
typedef void (*yaksu_free_fn)(void *buf, void *state);

static int wrong;

static void check(int holds, const char *what) {
  if (holds) return;
  printf("%s\n", what);
  wrong = 1;
}

static void check_openmpi(void) {
#ifdef HAVE_OPENMPI
  mca_mpool_base_module_t module;
  memset(&module, 0, sizeof module);
  module.mpool_alloc = rdm_ompi_mpool_alloc;
  module.mpool_realloc = rdm_ompi_mpool_realloc;
  module.mpool_free = rdm_ompi_mpool_free;
  char *got = module.mpool_alloc(&module, 100000, 4096, MCA_MPOOL_FLAGS_MPI_ALLOC_MEM);
  check(got != NULL && rdm_owns(got) && (uintptr_t)got % 4096 == 0, "mpool_alloc");
  if (got == NULL) return;
  memset(got, 3, 100000);
  got = module.mpool_realloc(&module, got, 300000);
  check(got != NULL && rdm_owns(got) && got[99999] == 3, "mpool_realloc");
  module.mpool_free(&module, got);
  check(module.mpool_alloc(&module, 64, 48, 0) == NULL, "an alignment that is no power of two");
  check(module.mpool_alloc(NULL, (size_t)-1, 0, 0) == NULL, "more than there is");
  module.mpool_free(&module, NULL);
#else
  printf("without Open MPI's header (libopenmpi-dev): its adapter is not tried\n");
#endif
}

static void check_ucx(void) {
#ifdef HAVE_UCX
  size_t size = 5000;
  void *chunk = NULL;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  check(ucs_alloc(NULL, &size, &chunk) == UCS_OK && size == (5000 + page - 1) / page * page && rdm_owns(chunk),
        "chunk_alloc");
  ucs_release(NULL, chunk);
#endif
}

static void check_genq(void) {
  const genq_malloc_fn mallocs[] = {rdm_genq_malloc, rdm_genq_malloc_exposed};
  const genq_free_fn release = rdm_genq_free;
  for (int i = 0; i < 2; ++i) {
    void *slab = mallocs[i]((uintptr_t)64 * 1024);
    check(slab != NULL && rdm_owns(slab), "genq's slab");
    if (slab != NULL) memset(slab, 1, 64 * 1024);
    release(slab);
  }
  check(rdm_genq_malloc((uintptr_t)-1) == NULL, "genq: more than there is");
}

static void check_yaksa(void) {
  const yaksu_malloc_fn allocate = rdm_yaksa_malloc;
  const yaksu_free_fn release = rdm_yaksa_free;
  void *slab = allocate(10000, NULL);
  check(slab != NULL && rdm_owns(slab), "yaksa's slab without a state");
  release(slab, NULL);

  rdm_slab_options state;
  memset(&state, 0, sizeof state);
  check(allocate(10000, &state) == NULL, "a state without its size");
  check(strstr(rdm_last_error(), "sizeof(rdm_slab_options)") != NULL, "... and the sentence");
  state.size = sizeof state;
  state.alignment = 8192;
  const int opened = rdm_domain_open_io_uring(-1, NULL, &state.domain);
  if (opened != RDM_OK) {
    printf("without io_uring: a slab's registration is not tried\n");
    return;
  }
  for (unsigned flags = 0; flags <= RDM_EXPOSED; ++flags) {
    state.flags = flags;
    rdm_mr mr;
    slab = allocate(100000, &state);
    check(slab != NULL && (uintptr_t)slab % 8192 == 0, "yaksa's slab with a state");
    check(rdm_lookup(state.domain, slab, 100000, &mr) == RDM_OK, "its registration");
    release(slab, &state);
  }
  state.flags = 0;
  check(rdm_domain_close(state.domain) == RDM_OK, "closing the domain");
  check(allocate(100000, &state) == NULL, "a slab that is registered nowhere");
  check(strstr(rdm_last_error(), "no memory region") != NULL, "... and the sentence");
}

int main(void) {
  check_openmpi();
  check_ucx();
  check_genq();
  check_yaksa();
  return wrong;
}
