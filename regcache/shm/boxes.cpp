#include "regcache/shm/boxes.h"

namespace rdmalloc::shm {

namespace {

// A sender asks for a fast box after this many messages to an inbox: occasional senders leave the
// boxes to others.
constexpr uint32_t kPostsBeforeBox = 16;

// Locks only if several threads of the process send.
class PeerLock {
 public:
  PeerLock(SpinLock& lock, bool has_threads) : lock_(has_threads ? &lock : nullptr) {
    if (lock_ != nullptr) lock_->lock();
  }
  ~PeerLock() {
    if (lock_ != nullptr) lock_->unlock();
  }
  PeerLock(const PeerLock&) = delete;
  PeerLock& operator=(const PeerLock&) = delete;

 private:
  SpinLock* const lock_;
};

}  // namespace

bool Boxes::make() {
  return peers_.make(mapping_.procs()) && own_.make(mapping_.plan.boxes().count());
}

void Boxes::open() {
  inbox_ = inbox_of(mapping_.rank);
  for (uint32_t i = 0; i < mapping_.plan.boxes().count(); ++i) own_[i] = box_of(mapping_.rank, i);
}

Inbox Boxes::inbox_of(uint32_t rank) const {
  const uint64_t last = mapping_.plan.at(rank, mapping_.plan.boxes().inbox());
  const uint64_t first = last + mapping_.plan.shape().cacheline;
  return Inbox(mapping_.at(0), mapping_.as<Inbox::Word>(last), mapping_.as<Inbox::Word>(first));
}

FastBox Boxes::box_of(uint32_t rank, uint32_t index) const {
  const Shape& shape = mapping_.plan.shape();
  return FastBox(mapping_.at(mapping_.plan.at(rank, mapping_.plan.boxes().box(index))),
                 static_cast<uint32_t>(shape.box_size / shape.cacheline),
                 static_cast<uint32_t>(shape.cacheline));
}

// Under the peer's lock.
bool Boxes::has_box(uint32_t peer) {
  Peer& to = peers_[peer];
  if (to.box) return true;
  if (to.is_refused || to.posted < kPostsBeforeBox) return false;
  for (uint32_t i = 0; i < mapping_.plan.boxes().count(); ++i) {
    FastBox box = box_of(peer, i);
    if (!box.claim(mapping_.rank, to.posted)) continue;
    to.box = box;
    return true;
  }
  to.is_refused = true;
  return false;
}

bool Boxes::push(uint32_t peer, uint64_t offset) {
  Peer& to = peers_[peer];
  const PeerLock hold(to.lock, mapping_.plan.shape().has_threads());
  if (has_box(peer)) return to.box.push_fragment(offset);
  inbox_of(peer).push(offset);
  ++to.posted;
  return true;
}

bool Boxes::push_whole(uint32_t peer, uint64_t tag, const void* data, size_t length,
                       bool* is_sent) {
  Peer& to = peers_[peer];
  const PeerLock hold(to.lock, mapping_.plan.shape().has_threads());
  if (!has_box(peer) || length > to.box.most()) return false;
  *is_sent = to.box.push(tag, data, static_cast<uint32_t>(length));
  return true;
}

int Boxes::poll(rdm_shm_message* out) {
  const uint32_t boxes = mapping_.plan.boxes().count();
  for (uint32_t i = 0; i < boxes + 1; ++i) {
    const uint32_t at = next_;
    next_ = next_ == boxes ? 0 : next_ + 1;
    int status = RDM_OK;
    if (at < boxes) {
      if (poll_box(own_[at], out, &status)) return status;
      continue;
    }
    uint64_t offset = 0;
    if (!inbox_.pop(&offset)) continue;
    status = fragments_.open(offset, out);
    if (status == RDM_OK) ++peers_[out->from].taken;
    return status;
  }
  return RDM_AGAIN;
}

// True: there was a message in it, with this status.
bool Boxes::poll_box(FastBox& box, rdm_shm_message* out, int* status) {
  Slot* slot = box.peek();
  if (slot == nullptr) return false;
  const uint32_t from = box.sender();
  // Messages that the peer sent before it claimed the box come first; they are in the inbox.
  if (from >= mapping_.procs() || peers_[from].taken < box.after()) return false;
  box.advance();
  if (!FastBox::is_whole(slot)) {
    const uint64_t offset = FastBox::fragment(slot);
    FastBox::done(slot);
    *status = fragments_.open(offset, out);
    return true;
  }
  if (FastBox::length(slot) > box.most()) {
    *status = fragments_.open(mapping_.plan.bytes(), out);  // which no message has as its offset
    return true;
  }
  out->data = slot->bytes();
  out->length = FastBox::length(slot);
  out->tag = slot->tag;
  out->from = from;
  out->handle = kSlotHandle | mapping_.offset_of(slot);
  *status = RDM_OK;
  return true;
}

bool Boxes::has_next() const {
  if (inbox_.has_next()) return true;
  for (uint32_t i = 0; i < mapping_.plan.boxes().count(); ++i) {
    if (own_[i].peek() != nullptr) return true;
  }
  return false;
}

void Boxes::done(uint64_t handle) const { FastBox::done(mapping_.as<Slot>(handle & ~kSlotHandle)); }

}  // namespace rdmalloc::shm
