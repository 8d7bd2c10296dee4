#include "allocator/pages/depots.h"

#include <initializer_list>

namespace rdmalloc {

// The window is carved upwards for extents and downwards for everything else; in both, what was
// carved first comes first.
void Depots::boot(bool several_nodes) {
  if (several_nodes) nodes_ = os::kMaxNodes;
  for (const RegionUse use : {RegionUse::kBlocks, RegionUse::kExposed}) {
    for (int node = 0; node < nodes_; ++node) {
      pinned_[node][index(use)].set_order(RunTree::Order::kHighestFirst);
    }
    overflow_[index(use)].set_order(RunTree::Order::kHighestFirst);
  }
  sparse_.set_order(RunTree::Order::kHighestFirst);
}

Depot& Depots::of(const Region& region, int node) {
  switch (region.kind) {
    case RegionKind::kPinned:
      return pinned_[node][index(region.use)];
    case RegionKind::kSparse:
      return sparse_;
    case RegionKind::kOverflow:
      break;
  }
  return overflow_[index(region.use)];
}

Taken Depots::take(const Request& request, Where where) {
  const auto pinned = [&](int node) -> Depot& { return pinned_[node][index(request.use)]; };
  const auto take_of = [&](Depot& depot) {
    return depot.take(regions_, request.size, request.alignment, live_.sum(request.use));
  };
  if (const Taken taken = take_of(pinned(request.node))) return taken;
  if (where == Where::kBest && !pin_pause_.is_on()) return {};
  for (int other = 0; nodes_ > 1 && other < nodes_; ++other) {
    if (const Taken taken = take_of(pinned(other))) return taken;
  }
  return where == Where::kAnyNode || request.use == RegionUse::kExposed || request.pinned
             ? Taken{}
             : take_of(overflow_[index(request.use)]);
}

bool Depots::has(const Request& request, Where where) {
  const auto has_of = [&](Depot& depot) { return depot.has(request.size, request.alignment); };
  if (has_of(of(request.use, request.node, true))) return true;
  return where == Where::kAnywhere && has_of(of(request.use, request.node, false));
}

Taken Depots::take_sparse(size_t size, size_t alignment) {
  return sparse_.take(regions_, size, alignment, live_.sum(RegionUse::kBlocks));
}

Taken Depots::take_at(void* address, size_t size) {
  Region* const region = regions_.find(address);
  if (region == nullptr) return {};
  LiveBytes::Sum* const live = live_.sum(region->use);
  LiveBytes::Sum* const spare = live_.spare_sum();
  const Taken taken = of(*region).take_at(region, address, size, live, spare);
  if (taken || !region->by_touch || region->kind != RegionKind::kPinned) return taken;
  for (int node = 0; node < nodes_; ++node) {
    Depot& other = of(*region, node);
    if (const Taken found = other.take_at(region, address, size, live, spare)) return found;
  }
  return {};
}

Status Depots::give(const Region& region, int node, void* address, size_t size) {
  const Status given = of(region, node).give(address, size, live_.sum(region.use));
  if (ok(given)) live_.note_given(size);
  return given;
}

Status Depots::exchange(const Region& region, int node, void* address, size_t size,
                        const Request& request, Taken* taken) {
  Depot& depot = of(region, node);
  Status given{};
  if (&depot == &of(request.use, request.node, true)) {
    given = depot.exchange(address, size, regions_, request.size, request.alignment,
                           live_.sum(region.use), taken);
    if (ok(given)) live_.note_given(size);
  } else {
    given = give(region, node, address, size);
  }
  if (ok(given) && !*taken) *taken = take(request, Where::kBest);
  return given;
}

void Depots::add(Region* region, size_t taken, size_t kept) {
  of(*region).add(*region, taken, kept, live_.spare_sum());
  live_.add(region->use, taken);
}

void Depots::abandon_exposed() {
  for (int node = 0; node < nodes_; ++node) {
    Depot& depot = pinned_[node][index(RegionUse::kExposed)];
    live_.abandon_free(depot.clear(live_.spare_sum()));
  }
}

void Depots::lock_all() {
  for_each([](Depot& depot) NO_THREAD_SAFETY_ANALYSIS { depot.lock(); });
}

void Depots::unlock_all() {
  Depot* all[kRegionUses * (os::kMaxNodes + 1) + 1];
  size_t count = 0;
  for_each([&](Depot& depot) { all[count++] = &depot; });
  while (count > 0) all[--count]->unlock();
}

}  // namespace rdmalloc
