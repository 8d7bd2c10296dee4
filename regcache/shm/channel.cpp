#include "regcache/shm/channel.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "regcache/shm/clock.h"
#include "regcache/shm/failure.h"
#include "regcache/shm/starved.h"

namespace rdmalloc::shm {

namespace {

// Spinning does not help if the sender has no processor to run on.
uint32_t spins_for(uint32_t procs) {
  constexpr uint32_t kSpins = 2000;
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) return kSpins;
  return procs <= static_cast<uint32_t>(CPU_COUNT(&processors)) ? kSpins : 0;
}

}  // namespace

Channel* Channel::make(const Mapping& mapping, Presence& presence) {
  void* memory = malloc(sizeof(Channel));
  if (memory == nullptr) return nullptr;
  auto* channel = new (memory) Channel(mapping, presence);
  const bool is_made = channel->fragments_.make() &&
                       (channel->has_pairs() ? channel->rings_.make() : channel->boxes_.make());
  if (is_made) return channel;
  destroy(channel);
  return nullptr;
}

void Channel::destroy(Channel* channel) {
  if (channel == nullptr) return;
  channel->~Channel();
  free(channel);
}

int Channel::open() {
  spins_ = spins_for(mapping_.procs());
  if (has_pairs()) return rings_.open();
  boxes_.open();
  return RDM_OK;
}

int Channel::get(size_t size, rdm_shm_fragment* out) {
  if (size > fragments_.most()) {
    return fail(RDM_INVALID, "a fragment of %zu bytes: the segment's have %zu at most", size,
                fragments_.most());
  }
  Fragment* fragment = fragments_.take(size);
  if (fragment == nullptr) {
    starved = {number_, fragments_.takes_large(size) ? Starved::kLarge : Starved::kEager};
    // Fragments held by dead ranks never come back.
    const uint32_t lost = presence_.look_for_dead_now_and_then(now_ms());
    return lost == 0 ? RDM_AGAIN : fail(RDM_PEER_DIED, "rank %u died", lost - 1);
  }
  out->data = fragment->bytes();
  out->capacity = fragments_.capacity(fragment);
  out->length = 0;
  out->tag = 0;
  out->handle = fragments_.offset_of(fragment);
  return RDM_OK;
}

void Channel::put(const rdm_shm_fragment* fragment) {
  fragments_.put(fragments_.at(fragment->handle));
  ring(mapping_.rank);  // another of our threads may be waiting for it
}

int Channel::check_peer(uint32_t rank) const {
  if (rank < mapping_.procs() && rank != mapping_.rank) return RDM_OK;
  return fail(RDM_INVALID, "rank %u sends to rank %u, of %u", mapping_.rank, rank,
              mapping_.procs());
}

int Channel::post(uint32_t peer, const rdm_shm_fragment* fragment) {
  if (const int status = check_peer(peer); status != RDM_OK) return status;
  Fragment* ours = fragments_.at(fragment->handle);
  if (fragment->length > fragments_.capacity(ours)) {
    return fail(RDM_INVALID, "%zu bytes in a fragment for %zu", fragment->length,
                fragments_.capacity(ours));
  }
  ours->tag = fragment->tag;
  ours->length = fragment->length;
  return deliver(peer, ours);
}

int Channel::deliver(uint32_t peer, Fragment* fragment) {
  const uint64_t offset = fragments_.offset_of(fragment);
  if (!(has_pairs() ? rings_.push(peer, offset) : boxes_.push(peer, offset))) return refused(peer);
  ring(peer);
  return RDM_OK;
}

// A sender that keeps retrying until there is room must learn of a death here, because it may never
// call wait().
int Channel::refused(uint32_t peer) {
  starved = {number_, Starved::kPeer + peer};
  const bool is_gone = presence_.look_for_dead_now_and_then(now_ms()) != 0
                           ? !presence_.is_alive(peer)
                           : presence_.has_left(peer);
  return is_gone ? fail(RDM_PEER_DIED, "rank %u is gone", peer) : RDM_AGAIN;
}

int Channel::send(uint32_t peer, uint64_t tag, const void* data, size_t length) {
  int status = check_peer(peer);
  if (status != RDM_OK) return status;
  bool is_sent = false;
  if (!has_pairs() && boxes_.push_whole(peer, tag, data, length, &is_sent)) {
    if (!is_sent) return refused(peer);
    ring(peer);
    return RDM_OK;
  }
  rdm_shm_fragment fragment = {};
  status = get(length, &fragment);
  if (status != RDM_OK) return status;
  Fragment* ours = fragments_.at(fragment.handle);
  if (length != 0) memcpy(ours->bytes(), data, length);
  ours->tag = tag;
  ours->length = length;
  status = deliver(peer, ours);
  if (status != RDM_OK) put(&fragment);
  return status;
}

int Channel::poll(rdm_shm_message* out) {
  if (!polling_.try_lock()) return RDM_AGAIN;
  int status = RDM_AGAIN;
  uint64_t offset = 0;
  if (!has_pairs()) {
    status = boxes_.poll(out);
  } else if (rings_.pop(&offset)) {
    status = fragments_.open(offset, out);
  }
  polling_.unlock();
  return status;
}

void Channel::release(const rdm_shm_message* message) {
  if (Boxes::is_slot(message->handle)) {
    boxes_.done(message->handle);
  } else {
    fragments_.give_back(fragments_.at(message->handle));
  }
  ring(message->from);
}

}  // namespace rdmalloc::shm
