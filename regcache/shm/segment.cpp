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

// How long a rank that fails keeps the name for late ranks: they are then told why, where otherwise
// they would wait for the name in vain.
constexpr uint32_t kKeepNameMs = 2'000;

// Interval between checks of the file system.
constexpr uint32_t kNapMs = 2;

int check_rank(uint32_t rank, uint32_t procs) {
  if (rank < procs) return RDM_OK;
  return fail(RDM_INVALID, "rank %u of a segment for %u processes", rank, procs);
}

int check_header(const char* name, const SegmentHeader& header, uint64_t bytes, Plan* plan) {
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

// Of an open file of that name; sets the mapping's plan.
int read_header(const char* name, Mapping* mapping, SegmentHeader* out) {
  if (!mapping->file.read(0, out, sizeof *out)) {
    return fail(RDM_INVALID, "/dev/shm/%s cannot be read", name);
  }
  return check_header(name, *out, mapping->file.bytes(), &mapping->plan);
}

// This rank's fragments of one size, all of them free.
void write_fragments(const Mapping& mapping, const FragmentPlan& plan, bool is_large) {
  const auto at = [&](uint64_t into_part) { return mapping.plan.at(mapping.rank, into_part); };
  FreeList list(mapping.as<FreeList::Word>(at(plan.list())), nullptr, 0);
  for (uint32_t i = plan.count(); i-- > 0;) {
    auto* fragment = mapping.as<Fragment>(at(plan.fragment(i)));
    fragment->owner = mapping.rank;
    fragment->index = i;
    fragment->is_large = is_large ? 1 : 0;
    list.put(fragment);
  }
}

}  // namespace

Segment::~Segment() {
  // Do nothing in a child of fork, which has only inherited the mapping.
  if (mapping_.file.base() == nullptr || mapping_.self.id != static_cast<uint32_t>(getpid()))
    return;
  if (is_joined_) {
    if (!is_committed_) agreement_.decide(RDM_PEER_DIED);
    mapping_.slot(mapping_.rank)->state.store(RankSlot::kDetached, std::memory_order_release);
  }
  if (name_[0] == '\0') return;
  // Not recorded in the slot: there may be no space for its page.
  if (!is_joined_) mapping_.header()->turned_away.fetch_add(1, std::memory_order_acq_rel);
  remove_name_when_all_came();
}

int Segment::create(const char* name, const Plan& plan, uint32_t rank, const Settings& settings) {
  int status = SharedFile::check_name(name);
  if (status == RDM_OK) status = check_rank(rank, plan.shape().procs);
  // The header has its own pages, before the first part.
  if (status == RDM_OK) status = mapping_.file.make(plan.bytes(), plan.part(0).offset);
  if (status != RDM_OK) return status;
  mapping_.plan = plan;
  mapping_.rank = rank;
  mapping_.self = this_process();
  SegmentHeader* header = mapping_.header();
  memcpy(header->magic, kMagic, sizeof kMagic);
  header->version = kVersion;
  header->header_bytes = sizeof(SegmentHeader);
  header->bytes = plan.bytes();
  header->shape = plan.shape();
  header->maker = mapping_.self;
  header->creator = rank;
  // Lock before publishing the name, because others must not find an unlocked segment; see
  // publish().
  status = mapping_.file.lock(rank);
  if (status == RDM_OK) status = publish(name);
  return status == RDM_OK ? join(settings) : status;
}

// If a segment of that name was never committed and its creator is dead, nobody uses it.
int Segment::publish(const char* name) {
  int status = mapping_.file.publish(name);
  if (status == RDM_BUSY && remove(name) == RDM_OK) status = mapping_.file.publish(name);
  if (status == RDM_BUSY) fail(RDM_BUSY, "/dev/shm/%s is there already, and in use", name);
  if (status == RDM_OK) snprintf(name_, sizeof name_, "%s", name);
  return status;
}

int Segment::remove(const char* name) {
  int status = SharedFile::check_name(name);
  if (status != RDM_OK) return status;
  Mapping other;
  status = other.file.open(name, sizeof(SegmentHeader));
  if (status == RDM_AGAIN) return RDM_OK;
  if (status != RDM_OK) return status;
  SegmentHeader header;
  status = read_header(name, &other, &header);
  if (status != RDM_OK) return status;
  other.self = this_process();
  if (Presence(other).runs(header.creator, header.maker)) {
    return fail(RDM_BUSY, "/dev/shm/%s is in use by process %u", name, header.maker.id);
  }
  other.file.remove_name(name);
  return RDM_OK;
}

int Segment::attach(const char* name, uint32_t rank, const Settings& settings) {
  int status = SharedFile::check_name(name);
  if (status == RDM_OK) status = find(name, now_ms() + settings.timeout_ms);
  if (status != RDM_OK) return status;
  SegmentHeader header;
  status = read_header(name, &mapping_, &header);
  if (status == RDM_OK) status = check_rank(rank, mapping_.plan.shape().procs);
  if (status == RDM_OK) status = mapping_.file.lock(rank);
  if (status != RDM_OK) return status;
  mapping_.rank = rank;
  mapping_.self = this_process();
  status = mapping_.file.map(mapping_.plan.bytes());
  if (status != RDM_OK) {
    // There may be space for the page that tells the others, who would otherwise wait in vain.
    if (mapping_.file.map(sizeof(SegmentHeader)) == RDM_OK) {
      mapping_.header()->turned_away.fetch_add(1, std::memory_order_acq_rel);
      agreement_.decide(status);
    }
    return status;
  }
  snprintf(name_, sizeof name_, "%s", name);
  return join(settings);
}

int Segment::find(const char* name, uint64_t deadline) {
  for (;;) {
    const int status = mapping_.file.open(name, sizeof(SegmentHeader));
    if (status != RDM_AGAIN) return status;
    if (now_ms() >= deadline) {
      return fail(RDM_AGAIN, "nobody created the segment /dev/shm/%s in time", name);
    }
    nap_ms(kNapMs);
  }
}

void Segment::give_up(int status) {
  if (is_joined_) agreement_.decide(status);
}

// The common part of create() and attach(): sets up this rank's part. A failure is reported to all
// ranks.
int Segment::join(const Settings& settings) {
  timeout_ms_ = settings.timeout_ms;
  Doorbell::set_up();
  const uint64_t decided = agreement_.verdict();
  if (decided != 0 && verdict::status(decided) == RDM_OK) {
    name_[0] = '\0';
    return fail(RDM_BUSY, "all ranks of the segment are attached already");
  }
  if (decided != 0) return agreement_.tell(decided);
  const Range part = mapping_.plan.part(mapping_.rank);
  if (settings.is_bound) bind_to_this_node(mapping_.at(part.offset), part.size);
  int status = mapping_.file.allocate(part.offset, part.size);
  if (status != RDM_OK) {
    agreement_.decide(status);
    return status;
  }
  status = enter_slot();
  if (status == RDM_OK) write_part();
  return status;
}

// The lock on the rank's byte excludes other processes; this excludes other threads of this
// process.
int Segment::enter_slot() {
  RankSlot* slot = mapping_.slot(mapping_.rank);
  uint32_t absent = RankSlot::kAbsent;
  if (!slot->state.compare_exchange_strong(absent, RankSlot::kEntering)) {
    name_[0] = '\0';
    return fail(RDM_BUSY, "rank %u is attached already, in process %u", mapping_.rank,
                slot->process.id);
  }
  slot->process = mapping_.self;
  slot->state.store(RankSlot::kAttached, std::memory_order_release);
  is_joined_ = true;
  return RDM_OK;
}

// New pages are zero, which means empty for queues, positions, inboxes, boxes and lists.
void Segment::write_part() {
  const Plan& plan = mapping_.plan;
  const uint32_t rank = mapping_.rank;
  for (uint32_t from = 0; plan.shape().has_pairs() && from < mapping_.procs(); ++from) {
    if (from == rank) continue;
    const PairPlan pair = plan.pair(from, rank);
    *mapping_.as<Fifo>(pair.fifo) = {pair.wrapper, from, rank};
    *mapping_.as<Wrapper>(pair.wrapper) = {
        pair.queue, pair.head, pair.tail, plan.shape().queue_entries, from, rank};
  }
  write_fragments(mapping_, plan.eager(), false);
  write_fragments(mapping_, plan.large(), true);
}

int Segment::commit(int own) {
  const int status = agreement_.reach(own, timeout_ms_);
  is_committed_ = status == RDM_OK;
  // Every rank removes the name, because the rank that decided may have died since. Nobody waits
  // any longer for a rank that did not come in time.
  if (name_[0] == '\0') return status;
  if (status == RDM_OK || status == RDM_AGAIN) {
    mapping_.file.remove_name(name_);
    name_[0] = '\0';
  } else {
    remove_name_when_all_came();
  }
  return status;
}

void Segment::remove_name_when_all_came() {
  const uint64_t patience = timeout_ms_ < kKeepNameMs ? timeout_ms_ : kKeepNameMs;
  const uint64_t deadline = now_ms() + patience;
  while (presence_.is_anybody_to_come() && now_ms() < deadline) nap_ms(kNapMs);
  mapping_.file.remove_name(name_);
  name_[0] = '\0';
}

}  // namespace rdmalloc::shm
