// How this rank sends: fragments, and the paths to a peer.
#include <string.h>

#include "regcache/shm/channel.h"
#include "regcache/shm/clock.h"
#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

namespace {

// A sender asks for a fast box after this many messages to an inbox: occasional senders leave the
// boxes to others.
constexpr uint32_t kPostsBeforeBox = 16;

}  // namespace

Fragment* Channel::take(size_t size) {
  const bool is_large = size > segment_.plan().eager_bytes();
  Fragment* fragment = is_large ? large_.get() : eager_.get();
  if (fragment == nullptr) {
    starved = {this, is_large ? Starved::kLarge : Starved::kEager};
  }
  return fragment;
}

int Channel::get(size_t size, rdm_shm_fragment* out) {
  const Plan& plan = segment_.plan();
  const size_t most = plan.max_count() > 0 && plan.max_bytes() > plan.eager_bytes()
                          ? plan.max_bytes()
                          : plan.eager_bytes();
  if (size > most) {
    return fail(RDM_INVALID, "a fragment of %zu bytes: the segment's have %zu at most", size, most);
  }
  Fragment* fragment = take(size);
  if (fragment == nullptr) return nothing_free();
  out->data = fragment->bytes();
  out->capacity = capacity(fragment);
  out->length = 0;
  out->tag = 0;
  out->handle = offset_of(fragment);
  return RDM_OK;
}

void Channel::put(const rdm_shm_fragment* fragment) {
  Fragment* ours = fragment_of(fragment->handle);
  (ours->is_large != 0 ? large_ : eager_).put(ours);
  ring(segment_.rank());  // another of our threads may be waiting for it
}

int Channel::post(uint32_t peer, const rdm_shm_fragment* fragment) {
  if (!is_peer(peer)) return no_peer(peer);
  Fragment* ours = fragment_of(fragment->handle);
  if (fragment->length > capacity(ours)) {
    return fail(RDM_INVALID, "%zu bytes in a fragment for %zu", fragment->length, capacity(ours));
  }
  ours->tag = fragment->tag;
  ours->length = fragment->length;
  return deliver(peer, ours);
}

int Channel::deliver(uint32_t peer, Fragment* fragment) {
  if (is_mpsc()) return deliver_mpsc(peer, fragment);
  const uint64_t offset = offset_of(fragment);
  Ring& to = peers_[peer].to;
  if (!(has_threads() ? to.push_shared(offset) : to.push(offset))) return refused(peer);
  ring(peer);
  return RDM_OK;
}

int Channel::deliver_mpsc(uint32_t peer, Fragment* fragment) {
  const uint64_t offset = offset_of(fragment);
  Peer& to = peers_[peer];
  bool is_sent = true;
  if (has_threads()) to.lock.lock();
  if (has_box(peer)) {
    is_sent = to.box.push_fragment(offset);
  } else {
    inbox_of(peer).push(offset);
    ++to.posted;
  }
  if (has_threads()) to.lock.unlock();
  if (!is_sent) return refused(peer);
  ring(peer);
  return RDM_OK;
}

// Under the peer's lock.
bool Channel::has_box(uint32_t peer) {
  Peer& to = peers_[peer];
  if (to.box) return true;
  if (to.is_refused || to.posted < kPostsBeforeBox) return false;
  for (uint32_t i = 0; i < segment_.plan().box_count(); ++i) {
    FastBox box = box_of(peer, i);
    if (!box.claim(segment_.rank(), to.posted)) continue;
    to.box = box;
    return true;
  }
  to.is_refused = true;
  return false;
}

// A sender that keeps retrying until there is room must learn of a death here, because it may never
// call wait().
int Channel::refused(uint32_t peer) {
  starved = {this, Starved::kRing + peer};
  const bool is_gone = segment_.look_for_dead_now_and_then(now_ms()) != 0 ? !segment_.is_alive(peer)
                                                                          : segment_.has_left(peer);
  return is_gone ? fail(RDM_PEER_DIED, "rank %u is gone", peer) : RDM_AGAIN;
}

// Fragments held by dead ranks never come back.
int Channel::nothing_free() {
  const uint32_t lost = segment_.look_for_dead_now_and_then(now_ms());
  return lost == 0 ? RDM_AGAIN : fail(RDM_PEER_DIED, "rank %u died", lost - 1);
}

int Channel::no_peer(uint32_t peer) const {
  return fail(RDM_INVALID, "rank %u sends to rank %u, of %u", segment_.rank(), peer,
              segment_.procs());
}

// True: this was a small message to a peer whose box we have, and *status is the result.
bool Channel::send_whole(uint32_t peer, uint64_t tag, const void* data, size_t length,
                         int* status) {
  Peer& to = peers_[peer];
  if (has_threads()) to.lock.lock();
  const bool is_whole = has_box(peer) && length <= to.box.most();
  const bool is_sent = is_whole && to.box.push(tag, data, static_cast<uint32_t>(length));
  if (has_threads()) to.lock.unlock();
  if (!is_whole) return false;
  if (is_sent) ring(peer);
  *status = is_sent ? RDM_OK : refused(peer);
  return true;
}

int Channel::send(uint32_t peer, uint64_t tag, const void* data, size_t length) {
  if (!is_peer(peer)) return no_peer(peer);
  int status = RDM_OK;
  if (is_mpsc() && send_whole(peer, tag, data, length, &status)) return status;
  rdm_shm_fragment fragment = {};
  status = get(length, &fragment);
  if (status != RDM_OK) return status;
  Fragment* ours = fragment_of(fragment.handle);
  if (length != 0) memcpy(ours->bytes(), data, length);
  ours->tag = tag;
  ours->length = length;
  status = deliver(peer, ours);
  if (status != RDM_OK) put(&fragment);
  return status;
}

}  // namespace rdmalloc::shm
