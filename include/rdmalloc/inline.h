/* rdm_lookup without the call, for the innermost loop of a communication library: a hit costs half
 * as much. C11 (GNU) and C++.
 *
 * The price: the layout of a domain is compiled into the caller. A program that includes this does
 * not load with a library that has another layout (there rdm_lookup_layout_2 is missing), and the
 * statistics' `lookups` do not count hits found here. */
#ifndef RDMALLOC_INLINE_H
#define RDMALLOC_INLINE_H

#include <rdmalloc/rdmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A region in one domain. Only the function below reads it. */
struct rdm_lookup_entry_ {
  size_t length; /* 0: not registered, or in pieces */
  void *base;
  uint32_t lkey, rkey;
  void *handle;
  unsigned char rest_[32];
};

/* What a domain begins with. */
struct rdm_lookup_head_ {
  uintptr_t window;
  size_t window_size;
  const uint16_t *entry_by_stretch;
  const struct rdm_lookup_entry_ *entries;
};

RDM_API extern const char rdm_lookup_layout_2;
static const char *const rdm_lookup_layout_ __attribute__((used)) = &rdm_lookup_layout_2;

/* As rdm_lookup, but `domain` and `out` must not be null, and the domain not be closed
 * meanwhile. */
static inline int rdm_lookup_inline(const rdm_domain *domain, const void *address, size_t length,
                                    rdm_mr *out) {
  enum { RDM_STRETCH_SHIFT_ = 18 };
  const struct rdm_lookup_head_ *head = (const struct rdm_lookup_head_ *)(const void *)domain;
  const uintptr_t offset = (uintptr_t)address - head->window;
  if (__builtin_expect(offset < head->window_size, 1)) {
    const uint16_t which =
        __atomic_load_n(&head->entry_by_stretch[offset >> RDM_STRETCH_SHIFT_], __ATOMIC_ACQUIRE);
    const struct rdm_lookup_entry_ *entry = &head->entries[which];
    const size_t registered = __atomic_load_n(&entry->length, __ATOMIC_ACQUIRE);
    const size_t into = (uintptr_t)address - (uintptr_t)entry->base;
    const int is_short = ((length - 1) >> RDM_STRETCH_SHIFT_) == 0;
    if (__builtin_expect(is_short && into + length <= registered, 1)) {
      out->base = entry->base;
      out->length = registered;
      out->lkey = entry->lkey;
      out->rkey = entry->rkey;
      out->handle = entry->handle;
      return RDM_OK;
    }
  }
  /* Not into *out itself, so that on a hit the compiler need not write what the caller does not
   * read. */
  rdm_mr found;
  const int status = rdm_lookup(domain, address, length, &found);
  if (status == RDM_OK) *out = found;
  return status;
}

#ifdef __cplusplus
}
#endif

#endif
