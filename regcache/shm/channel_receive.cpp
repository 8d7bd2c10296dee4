// How this rank receives from its peers in turn, and returns fragments to their owners.
#include "regcache/shm/channel.h"
#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

namespace {

// Marks a message handle as that of a slot, not of a fragment.
constexpr uint64_t kSlotHandle = uint64_t{1} << 63;

}  // namespace

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

// Polls the peers in turn, so that one that sends all the time does not starve the others.
bool Channel::poll_rings(uint64_t* offset) {
  const uint32_t procs = segment_.procs();
  for (uint32_t i = 0; i < procs; ++i) {
    const uint32_t from = next_;
    next_ = next_ + 1 == procs ? 0 : next_ + 1;
    if (from != segment_.rank() && peers_[from].from.pop(offset)) return true;
  }
  return false;
}

// Polls the boxes in turn, then the inbox.
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

// True: *offset is that of a fragment; or it is 0, and *out is the message.
bool Channel::poll_box(uint32_t index, rdm_shm_message* out, uint64_t* offset) {
  FastBox& box = boxes_[index];
  Slot* slot = box.peek();
  if (slot == nullptr) return false;
  const uint32_t from = box.sender();
  // Messages that the peer sent before it claimed the box come first; they are in the inbox.
  if (from >= segment_.procs() || peers_[from].taken < box.after()) return false;
  box.advance();
  *offset = 0;
  if (!FastBox::is_whole(slot)) {
    *offset = FastBox::fragment(slot);
    FastBox::done(slot);
    return true;
  }
  if (FastBox::length(slot) > box.most()) {
    *offset = segment_.plan().bytes();  // which no message has as its offset
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
      fragment->length > capacity(fragment) ||
      fragment->length > segment_.plan().bytes() - offset - sizeof(Fragment)) {
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
