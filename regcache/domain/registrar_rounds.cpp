#include "regcache/domain/registrar_rounds.h"

#include <algorithm>

#include "regcache/domain/round_threads.h"

namespace rdmalloc {
namespace {

// A device takes some milliseconds for so much, and a thread starts in a hundredth of that.
constexpr size_t kWorthAThread = size_t{32} << 20;

// What came of a domain's part of a round.
struct Turn {
  uint64_t next = Retries::kNever;  // when to come again: a time as of Retries::now_ns()
  bool is_done = true;              // false: the backend asks to come later
};

// Does what the registrar has to do in a domain. `all_due`: tries all that was refused once more.
// Enters for one region at a time: closing waits for one registration, not for all.
Turn take_turn(Domain& whole, bool all_due) {
  DomainParts& domain = whole.parts();
  RegionDeregistration& deregistration = whole.deregistration();
  const RegionTable& regions = domain.source->regions();
  Turn turn;
  for (size_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    if (!domain.entrance.enter()) return {};
    const bool is_ours = !domain.rules.is_callers_only();
    const bool is_left = is_ours && region.is_empty();
    KeyEntry& entry = domain.keys.entry_of(region);
    if (all_due && !region.is_empty()) Refusals::make_due(entry);
    bool is_put_off = false;
    if (is_ours && !is_left) {
      is_put_off = whole.registration().register_entered(region, RegionCaller::kRegistrar) ==
                   RDM_BACKEND_LATER;
      turn.next = std::min(turn.next, domain.refusals.next_try(region, entry));
    }
    domain.entrance.leave();
    if (is_left) {
      deregistration.retire(region, RegionCaller::kRegistrar);
      is_put_off = deregistration.keeps(region);
    }
    turn.is_done = turn.is_done && !is_put_off;
  }
  turn.is_done = domain.foreign->idle().deregister() && turn.is_done;
  if (!domain.entrance.enter()) return {};
  // A backend that runs in malloc refuses this thread permanently, so waiting is pointless.
  turn.is_done = turn.is_done || domain.device.may_run_in_malloc();
  domain.entrance.leave();
  return turn;
}

size_t bytes_to_come(const DomainParts& domain, const Region& region) {
  const bool may_come = !region.is_empty() && domain.mrs.takes(region) &&
                        domain.rules.permits(RegionCaller::kRegistrar);
  if (!may_come) return 0;
  const uint32_t state = domain.keys.entry_of(region).state.load(std::memory_order_relaxed);
  const bool is_wanted = !domain.rules.registers_when_asked() && !region.by_touch;
  return state == kAsked || (state == kUnregistered && is_wanted) ? region.length : 0;
}

// The domain has at least that much to register now; what was refused does not count, nor what is
// registered inside malloc.
bool has_to_come(const Domain& whole, size_t bytes) {
  const DomainParts& domain = whole.parts();
  if (!domain.entrance.enter()) return false;
  const RegionTable& regions = domain.source->regions();
  size_t sum = 0;
  for (size_t i = 0; !domain.device.may_run_in_malloc() && i < regions.size() && sum < bytes; ++i) {
    sum += bytes_to_come(domain, regions[i]);
  }
  domain.entrance.leave();
  return sum >= bytes;
}

// A domain's part of a round, done by one thread.
struct Part {
  Domain* domain = nullptr;
  bool all_due = false;
  bool is_long = false;
  Turn turn;

  void work() { turn = take_turn(*domain, all_due); }
};

// Devices that have much to register do so at the same time: all but one of their domains get a
// thread for this round.
void work_side_by_side(Part* parts, size_t count) {
  RoundThreads threads;
  Part* own = nullptr;
  for (size_t i = 0; i < count; ++i) {
    Part& part = parts[i];
    part.is_long = has_to_come(*part.domain, kWorthAThread);
    if (!part.is_long) continue;
    const auto run = [](void* given) -> void* {
      static_cast<Part*>(given)->work();
      return nullptr;
    };
    if (own == nullptr) {
      own = &part;
    } else if (!threads.start(run, &part)) {
      part.is_long = false;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (!parts[i].is_long) parts[i].work();
  }
  if (own != nullptr) own->work();
}

}  // namespace

uint64_t RegistrarRounds::work() {
  const bool all_due = retries_->begin_round();
  Part parts[Domains::kMost];
  size_t count = 0;
  for (Domain& domain : *domains_) {
    if (domain.is_open()) parts[count++] = {&domain, all_due, false, {}};
  }
  work_side_by_side(parts, count);
  uint64_t next = Retries::kNever;
  bool done = true;
  for (size_t i = 0; i < count; ++i) {
    next = std::min(next, parts[i].turn.next);
    done = parts[i].turn.is_done && done;
  }
  domains_->note_registrations();
  const uint64_t now = retries_->now_ns();
  uint64_t wait_ns = Registrar::kNever;
  if (next != Retries::kNever) wait_ns = next > now ? next - now : 0;
  if (done) put_off_ = 0;
  return done ? wait_ns : std::min(wait_ns, put_off());
}

// Returns the nanoseconds to wait. They grow each time, and in the end the wait lasts until there
// is other work: forking a large heap takes seconds.
uint64_t RegistrarRounds::put_off() {
  constexpr uint64_t kFirstNs = 2'000'000;
  constexpr unsigned kSteps = 9;  // up to one second
  constexpr unsigned kMost = 18;
  if (put_off_ >= kMost) return Registrar::kNever;
  return kFirstNs << std::min(put_off_++, kSteps);
}

}  // namespace rdmalloc
