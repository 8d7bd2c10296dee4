#include "regcache/shm/segment.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "include/rdmalloc/shm.h"
#include "regcache/shm/binding.h"
#include "regcache/shm/clock.h"
#include "regcache/shm/failure.h"
#include "regcache/shm/fragment.h"
#include "regcache/shm/free_list.h"

namespace rdmalloc::shm {

namespace {

int check_rank(uint32_t rank, uint32_t procs) {
  if (rank < procs) return RDM_OK;
  return fail(RDM_INVALID, "rank %u of a segment for %u processes", rank, procs);
}

void write_fragment(Fragment* fragment, uint32_t owner, uint32_t index, bool is_large) {
  fragment->owner = owner;
  fragment->index = index;
  fragment->is_large = is_large ? 1 : 0;
}

}  // namespace

Segment::~Segment() {
  // Do nothing in a child of fork, which has only inherited the mapping.
  if (file_.base() == nullptr || self_.id != static_cast<uint32_t>(getpid())) return;
  if (is_joined_) {
    if (!is_committed_) decide(RDM_PEER_DIED, rank_);
    slot(rank_)->state.store(RankSlot::kDetached, std::memory_order_release);
  }
  if (name_[0] == '\0') return;
  // Not recorded in the slot: there may be no space for its page.
  if (!is_joined_) header()->turned_away.fetch_add(1, std::memory_order_acq_rel);
  remove_name_when_all_came();
}

int Segment::create(const char* name, const Plan& plan, uint32_t rank, const Settings& settings) {
  int status = SharedFile::check_name(name);
  if (status == RDM_OK) status = check_rank(rank, plan.shape().procs);
  // The header has its own pages, before the first part.
  if (status == RDM_OK) status = file_.make(plan.bytes(), plan.part(0).offset);
  if (status != RDM_OK) return status;
  plan_ = plan;
  rank_ = rank;
  self_ = this_process();
  SegmentHeader* header = this->header();
  memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kVersion;
  header->header_bytes = sizeof(SegmentHeader);
  header->bytes = plan.bytes();
  header->shape = plan.shape();
  header->maker = self_;
  header->creator = rank;
  // Lock before publishing the name, because others must not find an unlocked segment; see
  // publish().
  status = file_.lock(rank);
  if (status == RDM_OK) status = publish(name);
  return status == RDM_OK ? join(settings) : status;
}

// If a segment of that name was never committed and its creator is dead, nobody uses it.
int Segment::publish(const char* name) {
  int status = file_.publish(name);
  if (status == RDM_BUSY && remove(name) == RDM_OK) status = file_.publish(name);
  if (status == RDM_BUSY) fail(RDM_BUSY, "/dev/shm/%s is there already, and in use", name);
  if (status == RDM_OK) snprintf(name_, sizeof name_, "%s", name);
  return status;
}

int Segment::remove(const char* name) {
  int status = SharedFile::check_name(name);
  if (status != RDM_OK) return status;
  Segment other;
  status = other.file_.open(name, sizeof(SegmentHeader));
  if (status == RDM_AGAIN) return RDM_OK;
  if (status != RDM_OK) return status;
  SegmentHeader header;
  status = other.check(name, &header);
  if (status != RDM_OK) return status;
  other.self_ = this_process();
  if (other.runs(header.creator, header.maker)) {
    return fail(RDM_BUSY, "/dev/shm/%s is in use by process %u", name, header.maker.id);
  }
  other.file_.remove_name(name);
  return RDM_OK;
}

int Segment::attach(const char* name, uint32_t rank, const Settings& settings) {
  int status = SharedFile::check_name(name);
  if (status == RDM_OK) status = find(name, now_ms() + settings.timeout_ms);
  if (status != RDM_OK) return status;
  SegmentHeader copy;
  status = check(name, &copy);
  if (status == RDM_OK) status = check_rank(rank, plan_.shape().procs);
  if (status == RDM_OK) status = file_.lock(rank);
  if (status != RDM_OK) return status;
  rank_ = rank;
  self_ = this_process();
  status = file_.map(plan_.bytes());
  if (status != RDM_OK) {
    // There may be space for the page that tells the others, who would otherwise wait in vain.
    if (file_.map(sizeof(SegmentHeader)) == RDM_OK) {
      header()->turned_away.fetch_add(1, std::memory_order_acq_rel);
      decide(status, rank_);
    }
    return status;
  }
  snprintf(name_, sizeof name_, "%s", name);
  return join(settings);
}

int Segment::find(const char* name, uint64_t deadline) {
  for (;;) {
    const int status = file_.open(name, sizeof(SegmentHeader));
    if (status != RDM_AGAIN) return status;
    if (now_ms() >= deadline) {
      return fail(RDM_AGAIN, "nobody created the segment /dev/shm/%s in time", name);
    }
    nap_ms(kNapMs);
  }
}

int Segment::check(const char* name, SegmentHeader* copy) {
  if (!file_.read(0, copy, sizeof *copy)) {
    return fail(RDM_INVALID, "/dev/shm/%s cannot be read", name);
  }
  return check_header(name, *copy, file_.bytes(), &plan_);
}

int Segment::check_header(const char* name, const SegmentHeader& header, uint64_t bytes,
                          Plan* plan) {
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return fail(RDM_INVALID, "/dev/shm/%s is not a segment of rdmalloc's", name);
  }
  if (header.version != kVersion || header.header_bytes != sizeof(SegmentHeader)) {
    return fail(RDM_INVALID,
                "/dev/shm/%s is of version %u, and this library of version %u: all ranks must use "
                "the same librdmalloc-shm.so",
                name, header.version, kVersion);
  }
  char why[160];
  if (Plan::make(header.shape, plan, why, sizeof why) != RDM_OK) {
    return fail(RDM_INVALID, "/dev/shm/%s is damaged: %s", name, why);
  }
  if (header.bytes != bytes || plan->bytes() != bytes || header.creator >= header.shape.procs) {
    return fail(RDM_INVALID, "/dev/shm/%s is truncated: it has %llu bytes, and its plan %llu", name,
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(plan->bytes()));
  }
  return RDM_OK;
}

void Segment::give_up(int status) {
  if (is_joined_) decide(status, rank_);
}

// The common part of create() and attach(): sets up this rank's part. A failure is reported to all
// ranks.
int Segment::join(const Settings& settings) {
  timeout_ms_ = settings.timeout_ms;
  Doorbell::set_up();
  const uint64_t decided = header()->verdict.load(std::memory_order_acquire);
  if (decided != 0 && verdict::status(decided) == RDM_OK) {
    name_[0] = '\0';
    return fail(RDM_BUSY, "all ranks of the segment are attached already");
  }
  if (decided != 0) return tell(decided);
  const Range part = plan_.part(rank_);
  if (settings.is_bound) bind_to_this_node(at(part.offset), part.size);
  int status = file_.allocate(part.offset, part.size);
  if (status != RDM_OK) {
    decide(status, rank_);
    return status;
  }
  status = enter_slot();
  if (status == RDM_OK) write_part();
  return status;
}

// The lock on the rank's byte excludes other processes; this excludes other threads of this
// process.
int Segment::enter_slot() {
  RankSlot* slot = this->slot(rank_);
  uint32_t absent = RankSlot::kAbsent;
  if (!slot->state.compare_exchange_strong(absent, RankSlot::kEntering)) {
    name_[0] = '\0';
    return fail(RDM_BUSY, "rank %u is attached already, in process %u", rank_, slot->process.id);
  }
  slot->process = self_;
  slot->state.store(RankSlot::kAttached, std::memory_order_release);
  is_joined_ = true;
  return RDM_OK;
}

// New pages are zero, which means empty for queues, positions, inboxes, boxes and lists.
void Segment::write_part() {
  for (uint32_t from = 0; plan_.shape().layout != RDM_SHM_MPSC && from < procs(); ++from) {
    if (from == rank_) continue;
    *as<Fifo>(plan_.fifo(from, rank_)) = {plan_.wrapper(from, rank_), from, rank_};
    *as<Wrapper>(plan_.wrapper(from, rank_)) = {plan_.queue(from, rank_),
                                                plan_.head(from, rank_),
                                                plan_.tail(from, rank_),
                                                plan_.shape().queue_entries,
                                                from,
                                                rank_};
  }
  FreeList eager(as<FreeList::Word>(plan_.eager_list(rank_)), nullptr, 0);
  for (uint32_t i = plan_.eager_count(); i-- > 0;) {
    auto* fragment = as<Fragment>(plan_.eager_fragment(rank_, i));
    write_fragment(fragment, rank_, i, false);
    eager.put(fragment);
  }
  FreeList large(as<FreeList::Word>(plan_.max_list(rank_)), nullptr, 0);
  for (uint32_t i = plan_.max_count(); i-- > 0;) {
    auto* fragment = as<Fragment>(plan_.max_fragment(rank_, i));
    write_fragment(fragment, rank_, i, true);
    large.put(fragment);
  }
}

}  // namespace rdmalloc::shm
