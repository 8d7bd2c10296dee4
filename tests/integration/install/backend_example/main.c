/* Uses the toy backend through the installed headers alone: its limits are respected, its
 * failures are undone and reported, lookups are correct, and malloc works whatever the backend
 * does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toy_backend.h"

enum { BLOCK = 256 << 10, BLOCKS = 160 };

static int broken;

#define EXPECT(condition)                                            \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      broken = 1;                                                    \
    }                                                                \
  } while (0)

static rdm_domain* open_on(toy_device* device, char* why, size_t why_size) {
  rdm_domain_options options = {.size = sizeof options, .error = why, .error_size = why_size};
  rdm_domain* domain = NULL;
  int status = rdm_domain_open(&toy_backend, device, &options, &domain);
  EXPECT((status == RDM_OK) == (domain != NULL));
  return domain;
}

/* The bytes have a key exactly when the device has them; returns 1 if they have. */
static int check_lookup(rdm_domain* domain, toy_device* device, char* bytes, size_t length) {
  rdm_mr found;
  int status = rdm_lookup(domain, bytes, length, &found);
  EXPECT(status == RDM_OK || status == RDM_NOT_REGISTERED);
  if (status != RDM_OK) return 0;
  EXPECT(found.lkey < TOY_ENTRIES);
  const toy_entry* entry = &device->entries[found.lkey];
  EXPECT(found.handle == entry && atomic_load(&device->entries[found.lkey].used) == 1);
  EXPECT(found.length <= TOY_LONGEST && found.base == entry->base);
  EXPECT(bytes >= (char*)entry->base);
  EXPECT(bytes + length <= (char*)entry->base + entry->length);
  return 1;
}

static int check_blocks(rdm_domain* domain, toy_device* device, char** blocks) {
  int registered = 0;
  for (int i = 0; i < BLOCKS; ++i) {
    if (blocks[i] == NULL) {
      blocks[i] = malloc(BLOCK);
      EXPECT(blocks[i] != NULL);
      memset(blocks[i], i, BLOCK);
    }
    EXPECT(blocks[i][BLOCK - 1] == (char)i);
    registered += check_lookup(domain, device, blocks[i], BLOCK);
  }
  return registered;
}

static void free_blocks(char** blocks) {
  for (int i = 0; i < BLOCKS; ++i) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void check_close(rdm_domain* domain, toy_device* device) {
  EXPECT(rdm_domain_close(domain) == RDM_OK);
  EXPECT(toy_entries_used(device) == 0);
  EXPECT(atomic_load(&device->closed) == 1);
}

/* The heap outgrows the device: memory without an entry is not registered, and lookups say so. */
static void outgrow(unsigned abilities) {
  static char* blocks[BLOCKS];
  toy_device device = {.abilities = abilities};
  char why[256] = "";
  rdm_domain* domain = open_on(&device, why, sizeof why);
  if (domain == NULL) {
    printf("opening failed: %s\n", why);
    broken = 1;
    return;
  }
  int registered = check_blocks(domain, &device, blocks);
  EXPECT(registered > 0);
  EXPECT(registered <= TOY_ENTRIES * (TOY_LONGEST / BLOCK));
  EXPECT(toy_entries_used(&device) == TOY_ENTRIES);
  EXPECT(check_blocks(domain, &device, blocks) == registered);
  check_close(domain, &device);
  free_blocks(blocks);
}

/* The k-th call fails, for every k: while the domain is being opened, everything is undone and
 * the reason reported; later, a lookup reports it. Returns 0 when k exceeds the number of calls. */
static int fail_at(int k, unsigned abilities) {
  static char* blocks[BLOCKS];
  toy_device device = {.abilities = abilities, .fail_at = k};
  char why[256] = "";
  rdm_domain* domain = open_on(&device, why, sizeof why);
  if (domain == NULL) {
    EXPECT(strcmp(why, "the toy device was told to fail") == 0);
    EXPECT(toy_entries_used(&device) == 0);
    EXPECT(atomic_load(&device.closed) == 0);
  }
  char* later = malloc(BLOCK);
  EXPECT(later != NULL);
  memset(later, 1, BLOCK);
  if (domain != NULL) {
    (void)check_blocks(domain, &device, blocks);
    (void)check_lookup(domain, &device, later, BLOCK);
    check_close(domain, &device);
  }
  free_blocks(blocks);
  free(later);
  return atomic_load(&device.calls) >= k;
}

int main(void) {
  rdm_domain* domain = NULL;
  rdm_backend incomplete = {.size = sizeof incomplete, .name = "incomplete"};
  EXPECT(rdm_domain_open(NULL, NULL, NULL, &domain) == RDM_INVALID);
  EXPECT(rdm_domain_open(&incomplete, NULL, NULL, &domain) == RDM_INVALID);
  EXPECT(domain == NULL);

  int deepest = 0;
  for (int k = 1; k <= 4 * TOY_ENTRIES && fail_at(k, RDM_BACKEND_IN_MALLOC); ++k) deepest = k;
  EXPECT(deepest >= 1);
  EXPECT(fail_at(1, 0));
  outgrow(RDM_BACKEND_IN_MALLOC);
  outgrow(0); /* registered by rdmalloc's own thread, or by the lookup */

  rdm_stats books;
  EXPECT(rdm_stats_get(&books, sizeof books) == RDM_OK);
  EXPECT(books.domains == 0 && books.registered_bytes == 0);
  EXPECT(books.registrations > 0 && books.lookups > 0 && books.lookup_misses > 0);
  if (!broken) printf("the toy device failed at %d different calls\n", deepest);
  return broken;
}
