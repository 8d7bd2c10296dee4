// How a channel is set up: what it knows of its peers, and of its own fragments.
#include "regcache/shm/channel.h"

#include <sched.h>
#include <stdlib.h>

#include <new>

#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

namespace {

template <typename T>
T* make_array(size_t count) {
  auto* array = static_cast<T*>(aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64));
  for (size_t i = 0; array != nullptr && i < count; ++i) new (&array[i]) T();
  return array;
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
    inbox_ = inbox_of(rank);
    for (uint32_t i = 0; i < plan.box_count(); ++i) boxes_[i] = box_of(rank, i);
  }
  return RDM_OK;
}

// Reads what the receiver wrote, which must match the plan.
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

Inbox Channel::inbox_of(uint32_t rank) const {
  const uint64_t last = segment_.plan().inbox(rank);
  const uint64_t first = last + segment_.plan().shape().cacheline;
  return Inbox(segment_.at(0), segment_.as<Inbox::Word>(last), segment_.as<Inbox::Word>(first));
}

FastBox Channel::box_of(uint32_t rank, uint32_t index) const {
  const Shape& shape = segment_.plan().shape();
  return FastBox(segment_.at(segment_.plan().box(rank, index)),
                 static_cast<uint32_t>(shape.box_size / shape.cacheline),
                 static_cast<uint32_t>(shape.cacheline));
}

}  // namespace rdmalloc::shm
