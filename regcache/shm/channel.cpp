#include "regcache/shm/channel.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

namespace {

// Messages to an inbox after which a sender asks for a fast box: those who send now and then leave
// them to others.
constexpr uint32_t kPostsBeforeBox = 16;
// In a handle: of a slot, not a fragment.
constexpr uint64_t kSlotHandle = uint64_t{1} << 63;

template <typename T>
T* make_array(size_t count) {
  auto* array = static_cast<T*>(aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64));
  for (size_t i = 0; array != nullptr && i < count; ++i) new (&array[i]) T();
  return array;
}

uint32_t slots_of(const Shape& shape) {
  return static_cast<uint32_t>(shape.box_size / shape.cacheline);
}

}  // namespace

void SpinLock::lock() {
  while (!try_lock()) sched_yield();
}

Channel* Channel::make(Segment& segment) {
  void* memory = malloc(sizeof(Channel));
  auto* channel = memory == nullptr ? nullptr : new (memory) Channel(segment);
  if (channel != nullptr && channel->allocate()) return channel;
  destroy(channel);
  return nullptr;
}

void Channel::destroy(Channel* channel) {
  if (channel == nullptr) return;
  free(channel->peers_);
  free(channel->boxes_);
  free(channel->table_);
  free(channel);
}

bool Channel::allocate() {
  const Plan& plan = segment_.plan();
  const uint32_t rank = segment_.rank();
  const uint32_t eager = plan.eager_count();
  const uint32_t large = plan.max_count();
  peers_ = make_array<Peer>(segment_.procs());
  table_ = make_array<Fragment*>(size_t{eager} + large + 1);
  boxes_ = make_array<FastBox>(size_t{plan.box_count()} + 1);
  if (peers_ == nullptr || table_ == nullptr || boxes_ == nullptr) return false;
  for (uint32_t i = 0; i < eager; ++i) {
    table_[i] = segment_.as<Fragment>(plan.eager_fragment(rank, i));
  }
  for (uint32_t i = 0; i < large; ++i) {
    table_[eager + i] = segment_.as<Fragment>(plan.max_fragment(rank, i));
  }
  eager_ = FreeList(segment_.as<FreeList::Word>(plan.eager_list(rank)), table_, eager);
  large_ = FreeList(segment_.as<FreeList::Word>(plan.max_list(rank)), table_ + eager, large);
  return true;
}

int Channel::open() {
  const Plan& plan = segment_.plan();
  const uint32_t rank = segment_.rank();
  spins_ = spins_for(segment_.procs());
  for (uint32_t other = 0; other < segment_.procs(); ++other) {
    peers_[other].bell = &segment_.slot(other)->bell;
    if (is_mpsc() || other == rank) continue;
    int status = open_ring(rank, other, &peers_[other].to);
    if (status == RDM_OK) status = open_ring(other, rank, &peers_[other].from);
    if (status != RDM_OK) return status;
  }
  if (is_mpsc()) {
    const uint64_t line = plan.shape().cacheline;
    inbox_ = Inbox(segment_.at(0), segment_.as<Inbox::Word>(plan.inbox(rank)),
                   segment_.as<Inbox::Word>(plan.inbox(rank) + line));
    for (uint32_t i = 0; i < plan.box_count(); ++i) {
      boxes_[i] = FastBox(segment_.at(plan.box(rank, i)), slots_of(plan.shape()),
                          static_cast<uint32_t>(line));
    }
  }
  return RDM_OK;
}

// From what the receiver wrote, which must be what the plan says.
int Channel::open_ring(uint32_t from, uint32_t to, Ring* out) {
  const Plan& plan = segment_.plan();
  const auto* fifo = segment_.as<Fifo>(plan.fifo(from, to));
  const auto* wrapper = segment_.as<Wrapper>(plan.wrapper(from, to));
  if (fifo->wrapper != plan.wrapper(from, to) || wrapper->queue != plan.queue(from, to) ||
      wrapper->head != plan.head(from, to) || wrapper->tail != plan.tail(from, to) ||
      wrapper->entries != plan.shape().queue_entries) {
    return fail(RDM_SYSTEM, "the segment is damaged: the ring from rank %u to rank %u", from, to);
  }
  *out =
      Ring(segment_.as<Ring::Word>(wrapper->queue), wrapper->entries,
           segment_.as<Ring::Position>(wrapper->head), segment_.as<Ring::Position>(wrapper->tail));
  return RDM_OK;
}

size_t Channel::capacity(const Fragment* fragment) const {
  return fragment->is_large != 0 ? segment_.plan().max_bytes() : segment_.plan().eager_bytes();
}

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
  if (fragment == nullptr) return RDM_AGAIN;
  out->data = fragment->bytes();
  out->capacity = capacity(fragment);
  out->length = 0;
  out->tag = 0;
  out->handle = static_cast<uint64_t>(fragment->bytes() - segment_.at(0)) - sizeof(Fragment);
  return RDM_OK;
}

Fragment* Channel::fragment_of(uint64_t handle) const { return segment_.as<Fragment>(handle); }

void Channel::put(const rdm_shm_fragment* fragment) {
  Fragment* ours = fragment_of(fragment->handle);
  (ours->is_large != 0 ? large_ : eager_).put(ours);
}

int Channel::post(uint32_t peer, const rdm_shm_fragment* fragment) {
  if (peer >= segment_.procs() || peer == segment_.rank()) {
    return fail(RDM_INVALID, "rank %u sends to rank %u, of %u", segment_.rank(), peer,
                segment_.procs());
  }
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
  const auto offset =
      static_cast<uint64_t>(reinterpret_cast<unsigned char*>(fragment) - segment_.at(0));
  Ring& to = peers_[peer].to;
  if (!(has_threads() ? to.push_shared(offset) : to.push(offset))) return refused(peer);
  ring(peer);
  return RDM_OK;
}

int Channel::deliver_mpsc(uint32_t peer, Fragment* fragment) {
  const auto offset =
      static_cast<uint64_t>(reinterpret_cast<unsigned char*>(fragment) - segment_.at(0));
  Peer& to = peers_[peer];
  bool is_sent = true;
  if (has_threads()) to.lock.lock();
  if (has_box(peer)) {
    is_sent = to.box.push_fragment(offset);
  } else {
    Inbox(segment_.at(0), segment_.as<Inbox::Word>(segment_.plan().inbox(peer)),
          segment_.as<Inbox::Word>(segment_.plan().inbox(peer) + segment_.plan().shape().cacheline))
        .push(offset);
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
  const Plan& plan = segment_.plan();
  for (uint32_t i = 0; i < plan.box_count(); ++i) {
    FastBox box(segment_.at(plan.box(peer, i)), slots_of(plan.shape()),
                static_cast<uint32_t>(plan.shape().cacheline));
    if (!box.claim(segment_.rank(), to.posted)) continue;
    to.box = box;
    return true;
  }
  to.is_refused = true;
  return false;
}

int Channel::refused(uint32_t peer) {
  starved = {this, Starved::kRing + peer};
  if (!segment_.has_left(peer) && segment_.lost() != peer + 1) return RDM_AGAIN;
  return fail(RDM_PEER_DIED, "rank %u is gone", peer);
}

// True: it was a small message to a peer where we have a box, and *status is what came of it.
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
  if (peer >= segment_.procs() || peer == segment_.rank()) {
    return fail(RDM_INVALID, "rank %u sends to rank %u, of %u", segment_.rank(), peer,
                segment_.procs());
  }
  int status = RDM_OK;
  if (is_mpsc() && send_whole(peer, tag, data, length, &status)) return status;
  rdm_shm_fragment fragment;
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

void Channel::release(const rdm_shm_message* message) {
  if ((message->handle & kSlotHandle) != 0) {
    FastBox::done(segment_.as<Slot>(message->handle & ~kSlotHandle));
  } else {
    Fragment* fragment = fragment_of(message->handle);
    const Plan& plan = segment_.plan();
    const uint64_t list =
        fragment->is_large != 0 ? plan.max_list(fragment->owner) : plan.eager_list(fragment->owner);
    FreeList(segment_.as<FreeList::Word>(list), nullptr, 0).put(fragment);
  }
  ring(message->from);
}

int Channel::poll(rdm_shm_message* out) {
  if (!polling_.try_lock()) return RDM_AGAIN;
  int status = RDM_AGAIN;
  uint64_t offset = 0;
  if (is_mpsc()) {
    status = poll_mpsc(out);
  } else if (poll_rings(&offset)) {
    status = open_message(offset, out);
  }
  polling_.unlock();
  return status;
}

// Peers in turn, so that one that sends all the time does not keep out the others.
bool Channel::poll_rings(uint64_t* offset) {
  const uint32_t procs = segment_.procs();
  for (uint32_t i = 0; i < procs; ++i) {
    const uint32_t from = next_;
    next_ = next_ + 1 == procs ? 0 : next_ + 1;
    if (from != segment_.rank() && peers_[from].from.pop(offset)) return true;
  }
  return false;
}

// Boxes in turn, then the inbox.
int Channel::poll_mpsc(rdm_shm_message* out) {
  uint64_t offset = 0;
  const uint32_t boxes = segment_.plan().box_count();
  for (uint32_t i = 0; i < boxes + 1; ++i) {
    const uint32_t at = next_;
    next_ = next_ == boxes ? 0 : next_ + 1;
    if (at == boxes) {
      if (!inbox_.pop(&offset)) continue;
      const int status = open_message(offset, out);
      if (status == RDM_OK) ++peers_[out->from].taken;
      return status;
    }
    if (!poll_box(at, out, &offset)) continue;
    return offset == 0 ? RDM_OK : open_message(offset, out);
  }
  return RDM_AGAIN;
}

// True: *offset is that of a fragment, or 0 and *out is the message.
bool Channel::poll_box(uint32_t index, rdm_shm_message* out, uint64_t* offset) {
  FastBox& box = boxes_[index];
  Slot* slot = box.peek();
  if (slot == nullptr) return false;
  const uint32_t from = box.sender();
  // What it sent before it had the box comes first; it is in the inbox.
  if (from >= segment_.procs() || peers_[from].taken < box.after()) return false;
  box.advance();
  *offset = 0;
  if (!FastBox::is_whole(slot)) {
    *offset = FastBox::fragment(slot);
    FastBox::done(slot);
    return true;
  }
  out->data = slot->bytes();
  out->length = FastBox::length(slot);
  out->tag = slot->tag;
  out->from = from;
  out->handle =
      kSlotHandle | static_cast<uint64_t>(reinterpret_cast<unsigned char*>(slot) - segment_.at(0));
  return true;
}

int Channel::open_message(uint64_t offset, rdm_shm_message* out) {
  const bool is_inside =
      offset < segment_.plan().bytes() - sizeof(Fragment) && offset % alignof(Fragment) == 0;
  Fragment* fragment = is_inside ? fragment_of(offset) : nullptr;
  if (!is_inside || fragment->owner >= segment_.procs() || fragment->owner == segment_.rank() ||
      fragment->length > capacity(fragment)) {
    return fail(RDM_SYSTEM, "the segment is damaged: a message at %llu",
                static_cast<unsigned long long>(offset));
  }
  out->data = fragment->bytes();
  out->length = fragment->length;
  out->tag = fragment->tag;
  out->from = fragment->owner;
  out->handle = offset;
  return RDM_OK;
}

}  // namespace rdmalloc::shm
