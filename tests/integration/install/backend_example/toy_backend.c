#include "toy_backend.h"

#include <string.h>

static int fail(int status, const char* sentence, char* why, size_t why_size) {
  if (why_size != 0) {
    strncpy(why, sentence, why_size - 1);
    why[why_size - 1] = '\0';
  }
  return status;
}

static int toy_limits(void* context, rdm_backend_limits* out) {
  const toy_device* device = context;
  out->max_length = TOY_LONGEST;
  out->max_count = TOY_ENTRIES;
  out->charges = RDM_CHARGES_NOTHING;
  out->abilities = device->abilities;
  return RDM_OK;
}

/* Takes no lock and does not malloc, so it may be declared RDM_BACKEND_IN_MALLOC. */
static int toy_register(void* context, const rdm_backend_request* request, rdm_backend_key* out,
                        char* why, size_t why_size) {
  toy_device* device = context;
  if (atomic_fetch_add(&device->calls, 1) + 1 == device->fail_at) {
    return fail(RDM_SYSTEM, "the toy device was told to fail", why, why_size);
  }
  if (request->length > TOY_LONGEST) return fail(RDM_INVALID, "too long", why, why_size);
  for (uint32_t i = 0; i < TOY_ENTRIES; ++i) {
    toy_entry* entry = &device->entries[i];
    int unused = 0;
    if (!atomic_compare_exchange_strong(&entry->used, &unused, 1)) continue;
    entry->base = request->base;
    entry->length = request->length;
    out->lkey = out->rkey = i;
    out->handle = entry;
    return RDM_OK;
  }
  return fail(RDM_SYSTEM, "the toy device has no entry left", why, why_size);
}

static int toy_deregister(void* context, const rdm_backend_key* key) {
  toy_device* device = context;
  int used = 1;
  if (key->handle != &device->entries[key->lkey]) return RDM_INVALID;
  return atomic_compare_exchange_strong(&device->entries[key->lkey].used, &used, 0) ? RDM_OK
                                                                                    : RDM_INVALID;
}

static void toy_closed(void* context, int forked) {
  toy_device* device = context;
  (void)forked;
  atomic_fetch_add(&device->closed, 1);
}

const rdm_backend toy_backend = {
    sizeof(rdm_backend), "toy", toy_limits, toy_register, toy_deregister, toy_closed,
};

int toy_entries_used(toy_device* device) {
  int used = 0;
  for (int i = 0; i < TOY_ENTRIES; ++i) used += atomic_load(&device->entries[i].used);
  return used;
}
