// The C interface: include/rdmalloc/shm.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "include/rdmalloc/shm.h"
#include "regcache/shm/channel.h"
#include "regcache/shm/failure.h"
#include "regcache/shm/segment.h"

using namespace rdmalloc::shm;

struct rdm_shm {
  Segment segment;
  Channel* channel = nullptr;
  bool is_open = false;  // once committed, always true
};

namespace {

// Fills in the options of this library's version; the caller's struct may be older and shorter.
rdm_shm_options read_settings(const rdm_shm_options* given, Settings* out) {
  rdm_shm_options options = {};
  if (given != nullptr) {
    memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
  }
  if (options.timeout_ms != 0) out->timeout_ms = options.timeout_ms;
  out->is_bound = options.unbound == 0;
  return options;
}

int report(int status, const rdm_shm_options& options) {
  if (status != RDM_OK && options.error != nullptr && options.error_size != 0) {
    snprintf(options.error, options.error_size, "%s", last_failure());
  }
  return status;
}

// Enters all the same, to tell the others, who would otherwise wait in vain.
template <typename Enter>
int without_memory(Enter enter) {
  Segment segment;
  const int status = enter(segment);
  if (status != RDM_OK) return status;
  segment.give_up(RDM_SYSTEM);
  return fail(RDM_SYSTEM, "no memory for what is known of a segment");
}

// `enter` is Segment's create() or attach() for this rank.
template <typename Enter>
int open_with(Enter enter, rdm_shm** out) {
  void* memory = aligned_alloc(64, (sizeof(rdm_shm) + 63) / 64 * 64);
  if (memory == nullptr) return without_memory(enter);
  auto* shm = new (memory) rdm_shm();
  int status = enter(shm->segment);
  if (status == RDM_OK) {
    shm->channel = Channel::make(shm->segment.mapping(), shm->segment.presence());
    if (shm->channel == nullptr) {
      status = fail(RDM_SYSTEM, "no memory for what is known of peers");
      shm->segment.give_up(status);
    }
  }
  if (status == RDM_OK) {
    *out = shm;
  } else {
    rdm_shm_detach(shm);
  }
  return status;
}

int not_open() { return fail(RDM_INVALID, "the segment is not committed"); }

}  // namespace

int rdm_shm_create(const char* name, const rdm_shm_plan_options* options, unsigned rank,
                   const rdm_shm_options* given, rdm_shm** out) {
  Settings settings;
  const rdm_shm_options ours = read_settings(given, &settings);
  if (options == nullptr || out == nullptr) {
    return report(fail(RDM_INVALID, "no plan, or nowhere to put the segment"), ours);
  }
  Shape shape;
  Plan plan;
  char why[160] = "";
  int status = read_options(options, &shape, why, sizeof why);
  if (status == RDM_OK) status = Plan::make(shape, &plan, why, sizeof why);
  if (status != RDM_OK) return report(fail(status, "%s", why), ours);
  const auto create = [&](Segment& segment) { return segment.create(name, plan, rank, settings); };
  return report(open_with(create, out), ours);
}

int rdm_shm_attach(const char* name, unsigned rank, const rdm_shm_options* given, rdm_shm** out) {
  Settings settings;
  const rdm_shm_options ours = read_settings(given, &settings);
  if (out == nullptr) return report(fail(RDM_INVALID, "nowhere to put the segment"), ours);
  const auto attach = [&](Segment& segment) { return segment.attach(name, rank, settings); };
  return report(open_with(attach, out), ours);
}

int rdm_shm_commit(rdm_shm* shm, int own) {
  int status = shm->segment.commit(own);
  if (status == RDM_OK) status = shm->channel->open();
  shm->is_open = status == RDM_OK;
  return status;
}

void rdm_shm_detach(rdm_shm* shm) {
  if (shm == nullptr) return;
  Channel::destroy(shm->channel);
  shm->~rdm_shm();
  free(shm);
}

int rdm_shm_remove(const char* name) { return Segment::remove(name); }

int rdm_shm_fragment_get(rdm_shm* shm, size_t size, rdm_shm_fragment* out) {
  return shm->is_open ? shm->channel->get(size, out) : not_open();
}

void rdm_shm_fragment_put(rdm_shm* shm, const rdm_shm_fragment* fragment) {
  shm->channel->put(fragment);
}

int rdm_shm_post(rdm_shm* shm, unsigned peer, const rdm_shm_fragment* fragment) {
  return shm->is_open ? shm->channel->post(peer, fragment) : not_open();
}

int rdm_shm_send(rdm_shm* shm, unsigned peer, uint64_t tag, const void* data, size_t length) {
  return shm->is_open ? shm->channel->send(peer, tag, data, length) : not_open();
}

int rdm_shm_poll(rdm_shm* shm, rdm_shm_message* out) {
  return shm->is_open ? shm->channel->poll(out) : not_open();
}

void rdm_shm_release(rdm_shm* shm, const rdm_shm_message* message) {
  shm->channel->release(message);
}

int rdm_shm_wait(rdm_shm* shm, unsigned timeout_ms) {
  return shm->is_open ? shm->channel->wait(timeout_ms) : not_open();
}

unsigned rdm_shm_rank(const rdm_shm* shm) { return shm->segment.mapping().rank; }
unsigned rdm_shm_processes(const rdm_shm* shm) { return shm->segment.mapping().procs(); }

int rdm_shm_is_alive(rdm_shm* shm, unsigned rank) {
  return shm->is_open && rank < shm->segment.mapping().procs() &&
                 shm->segment.presence().is_alive(rank)
             ? 1
             : 0;
}

const char* rdm_shm_last_error(void) { return last_failure(); }
